/* write.h - jobs into firn's own CSV.
 *
 * The first line is "#firn-trace 1", the second names the columns, then a row
 * per job. Numbers have all their digits, so what is written reads back as the
 * same jobs, bit for bit. Columns that only have defaults may be left out:
 * collect the mask over all jobs first (write_mask), or name the columns
 * wanted.
 */
#ifndef TRACE_WRITE_H
#define TRACE_WRITE_H
#include <firn/bytes.h>
#include <firn/job.h>

/* Columns in the order they are written. The first four are always there. */
#define WRITE_COLUMNS(X)              \
    X(NAME, "name")                   \
    X(SUBMIT, "submit_s")             \
    X(GPUS, "gpus")                   \
    X(DURATION, "duration_s")         \
    X(MIN, "gpus_min")                \
    X(MAX, "gpus_max")                \
    X(APP, "app")                     \
    X(GROUP, "group")                 \
    X(BATCH, "batch")                 \
    X(PRIORITY, "priority")           \
    X(MEM, "mem_gib")                 \
    X(TYPES, "types")                 \
    X(SHARE, "may_share")             \
    X(RESTART, "restart_s")           \
    X(NOMINAL, "nominal")             \
    X(SEQ, "seq")                     \
    X(MERGE, "may_merge")             \
    X(FROZEN, "frozen_max")           \
    X(THREADS, "threads")             \
    X(ONE_TYPE, "one_type")           \
    X(EFFORT, "best_effort")          \
    X(PRECISION, "precision")         \
    X(OPTIMIZER, "optimizer")         \
    X(ATTENTION, "attention")         \
    X(CHECKPOINTING, "checkpointing") \
    X(PLAN, "plan")

enum write_column {
#define X(id, name) WRITE_##id,
    WRITE_COLUMNS(X)
#undef X
        WRITE_NCOLUMNS,
    WRITE_NEEDED = 4
};

/* Bits (1 << column) that this job needs: those that are not the default. */
unsigned write_mask(const struct firn_job_spec *spec);

/* The two first lines, with the columns of `mask`. */
void write_header(struct firn_buf *out, unsigned mask);

/* One row with the columns of `mask`. */
void write_row(struct firn_buf *out, const struct firn_job_spec *spec,
               unsigned mask);

#endif
