# What `pieces.py` calls in its compiled form: CRC-32C without a Python call for each batch.

from lacuna.logstore.records.integers cimport int64_at, uint32_at

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <nmmintrin.h>
    #define LACUNA_CRC_TARGET __attribute__((target("sse4.2")))
    #define LACUNA_CRC8(crc, byte) _mm_crc32_u8((crc), (byte))
    #define LACUNA_CRC64(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
    #define LACUNA_HAS_CRC __builtin_cpu_supports("sse4.2")
    #elif defined(__ARM_FEATURE_CRC32) && !defined(__ARM_BIG_ENDIAN)
    #include <arm_acle.h>
    #define LACUNA_CRC_TARGET
    #define LACUNA_CRC8(crc, byte) __crc32cb((crc), (byte))
    #define LACUNA_CRC64(crc, word) __crc32cd((crc), (word))
    #define LACUNA_HAS_CRC 1
    #endif

    /* The instruction takes three cycles and one may begin each cycle, so three blocks are summed
       side by side; `lacuna_shift` then moves a sum over as many zero bytes as a block has. */
    #define LACUNA_BLOCK 1024
    static uint32_t lacuna_table[256], lacuna_shift[4][256];
    static int lacuna_has_crc;

    static uint32_t lacuna_crc_by_table(uint32_t crc, const uint8_t *data, int64_t size)
    {
        for (int64_t i = 0; i < size; i++)
            crc = lacuna_table[(crc ^ data[i]) & 255] ^ (crc >> 8);
        return crc;
    }

    static void lacuna_crc_prepare(void)
    {
        static const uint8_t zeros[LACUNA_BLOCK];
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
            lacuna_table[i] = crc;
        }
        for (int byte = 0; byte < 4; byte++)
            for (uint32_t i = 0; i < 256; i++)
                lacuna_shift[byte][i] = lacuna_crc_by_table(i << (8 * byte), zeros, LACUNA_BLOCK);
    #ifdef LACUNA_HAS_CRC
        lacuna_has_crc = LACUNA_HAS_CRC;
    #endif
    }

    #ifdef LACUNA_HAS_CRC
    static inline uint32_t lacuna_over_block(uint32_t crc)
    {
        return lacuna_shift[0][crc & 255] ^ lacuna_shift[1][(crc >> 8) & 255]
            ^ lacuna_shift[2][(crc >> 16) & 255] ^ lacuna_shift[3][crc >> 24];
    }

    static inline uint64_t lacuna_word(const uint8_t *data)
    {
        uint64_t word;
        memcpy(&word, data, 8);
        return word;
    }

    LACUNA_CRC_TARGET
    static uint32_t lacuna_crc_by_hardware(uint32_t crc, const uint8_t *data, int64_t size)
    {
        while (size >= 3 * LACUNA_BLOCK) {
            uint32_t second = 0, third = 0;
            for (int i = 0; i < LACUNA_BLOCK; i += 8) {
                crc = LACUNA_CRC64(crc, lacuna_word(data + i));
                second = LACUNA_CRC64(second, lacuna_word(data + LACUNA_BLOCK + i));
                third = LACUNA_CRC64(third, lacuna_word(data + 2 * LACUNA_BLOCK + i));
            }
            crc = lacuna_over_block(lacuna_over_block(crc) ^ second) ^ third;
            data += 3 * LACUNA_BLOCK;
            size -= 3 * LACUNA_BLOCK;
        }
        for (; size >= 8; data += 8, size -= 8)
            crc = LACUNA_CRC64(crc, lacuna_word(data));
        for (; size > 0; data++, size--)
            crc = LACUNA_CRC8(crc, *data);
        return crc;
    }
    #endif

    static unsigned int lacuna_crc32c(const uint8_t *data, long long size)
    {
    #ifdef LACUNA_HAS_CRC
        if (lacuna_has_crc)
            return ~lacuna_crc_by_hardware(~0u, data, size);
    #endif
        return ~lacuna_crc_by_table(~0u, data, size);
    }
    """
    void lacuna_crc_prepare() nogil
    unsigned int lacuna_crc32c(const unsigned char *data, long long size) nogil
