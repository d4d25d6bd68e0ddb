# C functions for the compiled form of `kernel.py`: CRC-32 without a Python call for each message.

from lacuna.logstore.records.integers cimport (
    copy, int32_at, int64_at, is_far, overflows, put_int, put_varint, varint_size
)

cdef extern from *:
    """
    #include <stdint.h>

    /* For eight bytes per step: lacuna_crc32_table[k][b] is the sum of byte b followed by k zero bytes. */
    static uint32_t lacuna_crc32_table[8][256];

    static void lacuna_crc32_prepare(void)
    {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
            lacuna_crc32_table[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++) {
                uint32_t before = lacuna_crc32_table[k - 1][i];
                lacuna_crc32_table[k][i] = lacuna_crc32_table[0][before & 255] ^ (before >> 8);
            }
    }

    static inline uint32_t lacuna_little_endian(const uint8_t *data)
    {
        return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    }

    static unsigned int lacuna_crc32(const uint8_t *data, long long size)
    {
        uint32_t crc = ~0u;
        for (; size >= 8; data += 8, size -= 8) {
            uint32_t low = crc ^ lacuna_little_endian(data);
            uint32_t high = lacuna_little_endian(data + 4);
            crc = lacuna_crc32_table[7][low & 255] ^ lacuna_crc32_table[6][(low >> 8) & 255]
                ^ lacuna_crc32_table[5][(low >> 16) & 255] ^ lacuna_crc32_table[4][low >> 24]
                ^ lacuna_crc32_table[3][high & 255] ^ lacuna_crc32_table[2][(high >> 8) & 255]
                ^ lacuna_crc32_table[1][(high >> 16) & 255] ^ lacuna_crc32_table[0][high >> 24];
        }
        for (; size > 0; data++, size--)
            crc = lacuna_crc32_table[0][(crc ^ *data) & 255] ^ (crc >> 8);
        return ~crc;
    }
    """
    void lacuna_crc32_prepare() nogil
    unsigned int lacuna_crc32(const unsigned char *data, long long size) nogil
