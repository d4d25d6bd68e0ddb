# C functions for the compiled form of `reading.py`: the system calls for many reads, without Python in
# between.

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #define LACUNA_TOGETHER 64

    static int64_t lacuna_read(int file, uint8_t *out, int64_t size, int64_t position)
    {
        int64_t filled = 0;
        while (filled < size) {
            ssize_t count = pread(file, out + filled, size - filled, position + filled);
            if (count < 0 && errno == EINTR)
                continue;
            if (count < 0)
                return -errno;
            if (count == 0)
                break;
            filled += count;
        }
        return filled;
    }

    /* Read the contiguous ranges [k, end) in one call. If it stops short, as at the end of the file, the rest is read
       range by range. */
    static void lacuna_read_together(
        int file, int64_t k, int64_t end, const long long *positions, const long long *sizes,
        const long long *starts, uint8_t *out, long long *counts)
    {
        struct iovec parts[LACUNA_TOGETHER];
        for (int64_t i = k; i < end; i++) {
            parts[i - k].iov_base = out + starts[i];
            parts[i - k].iov_len = sizes[i];
        }
        ssize_t count = preadv(file, parts, end - k, positions[k]);
        for (; k < end && count >= sizes[k]; count -= sizes[k], k++)
            counts[k] = sizes[k];
        for (; k < end; k++)
            counts[k] = lacuna_read(file, out + starts[k], sizes[k], positions[k]);
    }

    /* `paths` contains the names one after another, each with its NUL. */
    static void lacuna_read_files(
        const char *paths, int64_t files, const long long *firsts, const long long *positions,
        const long long *sizes, const long long *starts, uint8_t *out, long long *counts)
    {
        for (int64_t i = 0; i < files; i++, paths += strlen(paths) + 1) {
            int file;
            do
                file = open(paths, O_RDONLY | O_CLOEXEC);
            while (file < 0 && errno == EINTR);
            int64_t error = file < 0 ? -errno : 0;
            for (int64_t k = firsts[i], end; k < firsts[i + 1]; k = end) {
                end = k + 1;
                while (end < firsts[i + 1] && end - k < LACUNA_TOGETHER
                       && positions[end] == positions[end - 1] + sizes[end - 1])
                    end++;
                if (file < 0)
                    while (k < end)
                        counts[k++] = error;
                else if (end == k + 1)
                    counts[k] = lacuna_read(file, out + starts[k], sizes[k], positions[k]);
                else
                    lacuna_read_together(
                        file, k, end, positions, sizes, starts, out, counts);
            }
            if (file >= 0)
                close(file);
        }
    }
    """
    void lacuna_read_files(
        const char *paths, long long files, const long long *firsts, const long long *positions,
        const long long *sizes, const long long *starts, unsigned char *out, long long *counts,
    ) nogil

cdef extern from "Python.h":
    int PyByteArray_Resize(object data, Py_ssize_t size) except -1
