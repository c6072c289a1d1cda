/* ckpt.h - the checkpoint file of a training job.
 *
 * One file holds all of a job: shared tensors (weights, optimiser), the
 * context of every thread, decisions, progress. It is a list of named
 * sections; what they mean is the trainer's.
 *
 *   "firnckpt" u32 version u32 0               little endian throughout
 *   section*:  u32 mark, u32 type, u32 ndims, u32 name bytes, u64 dims[ndims],
 *              u64 data bytes, name, pad to 16, data, u32 CRC-32C of all of it,
 *              pad to 16
 *   end:       u32 mark, u32 0, u64 sections, u32 CRC-32C of their CRCs, u32 0,
 *              "tpkcnrif"
 *
 * A file is written under a temporary name, synced, and renamed; its folder is
 * synced. So a file of the final name is whole, and what a crash leaves is the
 * one before. A reader checks every CRC before it gives anything out; torn,
 * cut, longer or foreign files are refused with a sentence. Files are
 * <dir>/<name>-<step, 12 digits>.ckpt; the newest `keep` stay.
 */
#ifndef FIRN_CKPT_H
#define FIRN_CKPT_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

enum { FIRN_CKPT_VERSION = 1, FIRN_CKPT_DIMS = 8, FIRN_CKPT_NAME = 200 };

enum firn_ckpt_type {
    FIRN_CKPT_BYTES = 1, /* opaque */
    FIRN_CKPT_F32,
    FIRN_CKPT_F64,
    FIRN_CKPT_F16,
    FIRN_CKPT_BF16,
    FIRN_CKPT_I64,
    FIRN_CKPT_I32,
    FIRN_CKPT_U8,
    FIRN_CKPT_NTYPES
};
/* "f32", and the bytes of one element; "?" and 0 for an unknown type. */
FIRN_API const char *firn_ckpt_type_name(enum firn_ckpt_type type);
FIRN_API size_t firn_ckpt_type_bytes(enum firn_ckpt_type type);

/* A section. `name` is text without control characters, unique in its file;
 * a '/' puts it into a group ("thread/3/rng"). The product of dims times the
 * element is nbytes; no dims: one element, or nbytes of BYTES. */
struct firn_ckpt_section {
    const char *name;
    enum firn_ckpt_type type;
    unsigned ndims;
    uint64_t dims[FIRN_CKPT_DIMS];
    const void *data; /* 16-byte aligned when read */
    uint64_t nbytes;
};

/* --- writing ------------------------------------------------------------- */

struct firn_ckpt_writer;
FIRN_API enum firn_status firn_ckpt_create(struct firn_ckpt_writer **out,
                                           const char *dir, const char *name,
                                           uint64_t step,
                                           struct firn_error *err);
FIRN_API enum firn_status firn_ckpt_put(struct firn_ckpt_writer *writer,
                                        const struct firn_ckpt_section *section,
                                        struct firn_error *err);
/* Ends the file: synced and in place when this returns FIRN_OK, then all but
 * the newest `keep` (0: two) of this name are removed; any that are newer than
 * this one stay. The writer is gone in any case. A put that failed fails the
 * commit. On failure nothing has changed in the folder, unless it was the
 * folder that could not be synced, which the sentence then says. */
FIRN_API enum firn_status firn_ckpt_commit(struct firn_ckpt_writer *writer,
                                           unsigned keep,
                                           struct firn_error *err);
FIRN_API void firn_ckpt_drop(struct firn_ckpt_writer *writer);

/* --- reading ------------------------------------------------------------- */

struct firn_ckpt;
FIRN_API enum firn_status firn_ckpt_open(struct firn_ckpt **out,
                                         const char *path,
                                         struct firn_error *err);
/* The same from memory, which is borrowed; `where` is its name in sentences. */
FIRN_API enum firn_status firn_ckpt_parse(struct firn_ckpt **out,
                                          const void *bytes, size_t n,
                                          const char *where,
                                          struct firn_error *err);
/* Opens the newest whole checkpoint of a name. FIRN_ENOENT when there is no
 * checkpoint of it. `refused` gets the sentence about a newer file that was
 * refused, and is empty otherwise; that file stays where it is. */
FIRN_API enum firn_status
firn_ckpt_open_newest(struct firn_ckpt **out, const char *dir, const char *name,
                      struct firn_error *refused, struct firn_error *err);
/* A job that begins anew at attempt `attempt` (FIRN_ANEW): removes the
 * checkpoints of the name, once for each attempt's number; a mark in the folder
 * says that it was done. No folder: nothing to do. */
FIRN_API enum firn_status firn_ckpt_anew(const char *dir, const char *name,
                                         int attempt, struct firn_error *err);
FIRN_API void firn_ckpt_close(struct firn_ckpt *ckpt);
FIRN_API uint64_t firn_ckpt_step(const struct firn_ckpt *ckpt); /* by name */
FIRN_API size_t firn_ckpt_count(const struct firn_ckpt *ckpt);
/* Borrowed until the file is closed. */
FIRN_API const struct firn_ckpt_section *
firn_ckpt_at(const struct firn_ckpt *ckpt, size_t i);
FIRN_API const struct firn_ckpt_section *
firn_ckpt_find(const struct firn_ckpt *ckpt, const char *name);
/* Copies a section of exactly this type and size into `data`, or says what is
 * wrong with it. */
FIRN_API enum firn_status firn_ckpt_take(const struct firn_ckpt *ckpt,
                                         const char *name,
                                         enum firn_ckpt_type type, void *data,
                                         size_t nbytes, struct firn_error *err);

/* --- comparing ----------------------------------------------------------- */

enum firn_ckpt_kind {
    FIRN_CKPT_ONLY_LEFT = 1,
    FIRN_CKPT_ONLY_RIGHT,
    FIRN_CKPT_OTHER_SHAPE, /* type or dims */
    FIRN_CKPT_OTHER_BITS
};

/* How two sections of one name differ; EasyScale's bitwise profiling tool. */
struct firn_ckpt_difference {
    const char *name;
    enum firn_ckpt_kind kind;
    uint64_t nelements, ndiffer; /* by bits */
    uint64_t first;              /* element */
    double left, right;          /* there; bytes as numbers */
    double largest;              /* absolute difference, of numbers */
};
/* Calls `tell` for each section that differs, in the order of the left file,
 * then of the right; returns their number. NaNs with equal bits are equal, +0
 * and -0 are not. */
typedef void firn_ckpt_tell(void *arg, const struct firn_ckpt_difference *d);
FIRN_API size_t firn_ckpt_compare(const struct firn_ckpt *left,
                                  const struct firn_ckpt *right,
                                  firn_ckpt_tell *tell, void *arg);

FIRN_C_END

#endif
