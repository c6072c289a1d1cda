/* ckpt_parts.h - the format of checkpoints, for writer and reader.
 *
 * Numbers of the format (firn/ckpt.h has its picture), the rules for names and
 * shapes, names of files.
 */
#ifndef TRAIN_CKPT_PARTS_H
#define TRAIN_CKPT_PARTS_H
#include <firn/ckpt.h>

enum {
    CKPT_ALIGN = 16,
    CKPT_HEAD = 16,         /* bytes of a file before its sections */
    CKPT_FIXED = 24,        /* of a section, without dims and name */
    CKPT_LEAST = 48,        /* of a whole section */
    CKPT_END = 32,          /* behind the sections */
    CKPT_STEP_DIGITS = 12,  /* in a file's name */
    CKPT_TAIL = 1 + 12 + 5, /* "-000000000007.ckpt" */
    CKPT_HEAD_MAX = CKPT_FIXED + 8 * FIRN_CKPT_DIMS + FIRN_CKPT_NAME + 16
};

#define CKPT_MAGIC     "firnckpt"
#define CKPT_MAGIC_END UINT64_C(0x6669726e636b7074) /* "tpkcnrif" */
#define CKPT_MARK      0x54434553u                  /* "SECT" */
#define CKPT_MARK_END  0x20444e45u                  /* "END " */
#define CKPT_STEPS     UINT64_C(1000000000000)

/* Little endian, wherever it lies. */
void ckpt_put32(uint8_t *at, uint32_t value);
void ckpt_put64(uint8_t *at, uint64_t value);
uint32_t ckpt_get32(const uint8_t *at);
uint64_t ckpt_get64(const uint8_t *at);

/* Is this the name of a section (1 to 200 bytes, none of them a control
 * character)? */
bool ckpt_is_name(const char *name, size_t n);
/* Its type and dims give nbytes. */
bool ckpt_is_shaped(const struct firn_ckpt_section *section);
/* Bytes from the mark to the data. */
size_t ckpt_head_bytes(unsigned ndims, size_t name_bytes);
uint64_t ckpt_padded(uint64_t n);

/* The file name is that of a checkpoint called `name` (NULL: of any). */
bool ckpt_is_file(const char *file, const char *name, uint64_t *step);
/* The steps with a file in `dir`, newest first; free() them. A missing folder
 * has none. */
enum firn_status ckpt_steps(const char *dir, const char *name, uint64_t **steps,
                            size_t *n, struct firn_error *err);
/* "<dir>/<name>-<step>.ckpt"; free() it. NULL: no memory. */
char *ckpt_path(const char *dir, const char *name, uint64_t step);

#endif
