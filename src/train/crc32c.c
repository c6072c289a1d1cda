/* crc32c.c - CRC-32C by the processor's own instruction or by tables.
 *
 * Tables: eight bytes are taken at once, each looked up in the table of its
 * distance from the end ("slicing by 8", Kounavis and Berry, 2005). The tables
 * (8 KiB) are made at the first use. Where the processor has an instruction
 * for it, which x86-64 is asked at run time and Arm when compiling, that is
 * used instead: 6.4 GB/s rather than 1.7 where it was measured.
 *
 * (1) Both ways give the same number for every input and every cut.
 * (2) Bytes are read as bytes: no order and no alignment of the machine shows.
 */
#include "train/crc32c.h"
#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

enum { POLYNOMIAL_BITS = 8, TABLES = 8, BYTES = 256 };

static uint32_t table[TABLES][BYTES];
static pthread_once_t is_made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    const uint32_t reflected = 0x82f63b78u;
    for (uint32_t i = 0; i < BYTES; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < POLYNOMIAL_BITS; bit++)
            crc = crc >> 1 ^ (crc & 1 ? reflected : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < BYTES; i++)
        for (int t = 1; t < TABLES; t++) {
            uint32_t before = table[t - 1][i];
            table[t][i] = before >> 8 ^ table[0][before & 0xff];
        }
}

uint32_t crc32c_add_plain(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    pthread_once(&is_made, make_tables);
    crc = ~crc;
    for (; n >= 8; n -= 8, at += 8)
        crc = table[7][at[0] ^ (crc & 0xff)] ^
              table[6][at[1] ^ (crc >> 8 & 0xff)] ^
              table[5][at[2] ^ (crc >> 16 & 0xff)] ^
              table[4][at[3] ^ crc >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^
              table[1][at[6]] ^ table[0][at[7]];
    for (; n > 0; n--)
        crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const uint8_t *at, size_t n)
{
    uint64_t wide = ~crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n > 0; n--)
        crc = _mm_crc32_u8(crc, *at++);
    return ~crc;
}

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    if (__builtin_cpu_supports("sse4.2"))
        return by_instruction(crc, bytes, n);
    return crc32c_add_plain(crc, bytes, n);
}

#elif defined(__ARM_FEATURE_CRC32)

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = word << 8 | at[i];
        crc = __crc32cd(crc, word);
    }
    for (; n > 0; n--)
        crc = __crc32cb(crc, *at++);
    return ~crc;
}

#else

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    return crc32c_add_plain(crc, bytes, n);
}

#endif
