# C functions for the compiled form of `pieces.py`: CRC-32C without a Python call for each batch.

from lacuna.logstore.records.integers cimport int64_at, uint32_at

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <immintrin.h>
    #define LACUNA_CRC_TARGET __attribute__((target("sse4.2")))
    #define LACUNA_CRC8(crc, byte) _mm_crc32_u8((crc), (byte))
    #define LACUNA_CRC64(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
    #define LACUNA_HAS_CRC __builtin_cpu_supports("sse4.2")
    #if __clang_major__ >= 14 || (!defined(__clang__) && __GNUC__ >= 11)
    #define LACUNA_FOLD_TARGET __attribute__((target("avx512f,avx512vl,vpclmulqdq,sse4.2")))
    #define LACUNA_CAN_FOLD (LACUNA_HAS_CRC && __builtin_cpu_supports("avx512f") \
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq"))
    #endif
    #elif defined(__ARM_FEATURE_CRC32) && !defined(__ARM_BIG_ENDIAN)
    #include <arm_acle.h>
    #define LACUNA_CRC_TARGET
    #define LACUNA_CRC8(crc, byte) __crc32cb((crc), (byte))
    #define LACUNA_CRC64(crc, word) __crc32cd((crc), (word))
    #define LACUNA_HAS_CRC 1
    #endif

    /* The instruction takes three cycles, but one can start in every cycle, so three blocks are summed
       in parallel; `lacuna_shift` then advances a sum by a block of zero bytes. */
    #define LACUNA_BLOCK 1024
    static uint32_t lacuna_table[256], lacuna_shift[4][256];
    static int lacuna_has_crc, lacuna_can_fold;

    static uint32_t lacuna_crc_by_table(uint32_t crc, const uint8_t *data, int64_t size)
    {
        for (int64_t i = 0; i < size; i++)
            crc = lacuna_table[(crc ^ data[i]) & 255] ^ (crc >> 8);
        return crc;
    }

    #ifdef LACUNA_CAN_FOLD
    /* Factors that advance 128 bits by 2048, 512 or 128 bits, one for each half. */
    static uint64_t lacuna_factors[3][2];

    /* x to the power of `exponent`, modulo the polynomial, as a factor: reversed bits followed by a zero. */
    static uint64_t lacuna_power(int exponent)
    {
        uint32_t power = 0x80000000u;
        while (exponent--)
            power = (power >> 1) ^ (power & 1 ? 0x82F63B78u : 0);
        return (uint64_t)power << 1;
    }
    #endif

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
    #ifdef LACUNA_CAN_FOLD
        for (int i = 0, bits = 2048; i < 3; i++, bits /= 4) {
            lacuna_factors[i][0] = lacuna_power(bits + 32);
            lacuna_factors[i][1] = lacuna_power(bits - 32);
        }
        lacuna_can_fold = LACUNA_CAN_FOLD;
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

    #ifdef LACUNA_CAN_FOLD
    #define LACUNA_FOLD_LEAST 512

    LACUNA_FOLD_TARGET
    static inline __m512i lacuna_fold(__m512i sum, __m512i factors, __m512i next)
    {
        /* 0x96 is the exclusive or of all three. */
        return _mm512_ternarylogic_epi64(
            _mm512_clmulepi64_epi128(sum, factors, 0x00),
            _mm512_clmulepi64_epi128(sum, factors, 0x11), next, 0x96);
    }

    LACUNA_FOLD_TARGET
    static inline __m512i lacuna_factors_of(int i)
    {
        return _mm512_broadcast_i32x4(
            _mm_set_epi64x(lacuna_factors[i][1], lacuna_factors[i][0]));
    }

    /* Advance four sums of 64 bytes by 256 bytes at a time, combine them into one, and sum the remaining bytes
       with the instruction. `size` is at least LACUNA_FOLD_LEAST. */
    LACUNA_FOLD_TARGET
    static uint32_t lacuna_crc_by_folding(uint32_t crc, const uint8_t *data, int64_t size)
    {
        __m512i sums[4], factors = lacuna_factors_of(0);
        uint64_t words[8];
        for (int i = 0; i < 4; i++)
            sums[i] = _mm512_loadu_si512(data + 64 * i);
        sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(crc)));
        for (data += 256, size -= 256; size >= 256; data += 256, size -= 256)
            for (int i = 0; i < 4; i++)
                sums[i] = lacuna_fold(sums[i], factors, _mm512_loadu_si512(data + 64 * i));
        factors = lacuna_factors_of(1);
        for (int i = 1; i < 4; i++)
            sums[i] = lacuna_fold(sums[i - 1], factors, sums[i]);
        /* Fold its four parts of 128 bits into the last one. */
        factors = lacuna_factors_of(2);
        __m512i sum = _mm512_maskz_mov_epi64(0x03, sums[3]);
        for (int i = 1; i < 4; i++)
            sum = lacuna_fold(
                sum, factors,
                _mm512_maskz_compress_epi64(0x03 << 2 * i, sums[3]));
        _mm512_storeu_si512(words, sum);
        crc = LACUNA_CRC64(LACUNA_CRC64(0, words[0]), words[1]);
        return lacuna_crc_by_hardware(crc, data, size);
    }
    #endif

    static unsigned int lacuna_crc32c(const uint8_t *data, long long size)
    {
    #ifdef LACUNA_CAN_FOLD
        if (lacuna_can_fold && size >= LACUNA_FOLD_LEAST)
            return ~lacuna_crc_by_folding(~0u, data, size);
    #endif
    #ifdef LACUNA_HAS_CRC
        if (lacuna_has_crc)
            return ~lacuna_crc_by_hardware(~0u, data, size);
    #endif
        return ~lacuna_crc_by_table(~0u, data, size);
    }
    """
    void lacuna_crc_prepare() nogil
    unsigned int lacuna_crc32c(const unsigned char *data, long long size) nogil
