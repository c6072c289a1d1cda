/* crc32c.h - the checksum of checkpoints: CRC-32C (Castagnoli).
 *
 * Polynomial 0x1edc6f41, reflected, started and ended with all ones: what
 * iSCSI and ext4 use. "123456789" gives 0xe3069283. Safe to use from several
 * threads.
 */
#ifndef TRAIN_CRC32C_H
#define TRAIN_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, which is 0 at the start: pieces give the same as the
 * whole. */
uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n);

/* The same by tables alone, for machines without the instruction. */
uint32_t crc32c_add_plain(uint32_t crc, const void *bytes, size_t n);

#endif
