/* message.h - the messages between a trainer and the scheduler.
 *
 * A report goes up, orders come back; both are small JSON objects. This is
 * their one definition: the trainer's library and the daemon read and write
 * them by the same functions. No allocation, no library beyond libc.
 */
#ifndef FIRN_MESSAGE_H
#define FIRN_MESSAGE_H
#include <firn/can.h>
#include <firn/status.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

/* The parts of a training step, in the order in which they happen. */
enum firn_step_part {
    FIRN_STEP_DATA,
    FIRN_STEP_FORWARD,
    FIRN_STEP_BACKWARD,
    FIRN_STEP_SWITCH,
    FIRN_STEP_REDUCE,
    FIRN_STEP_UPDATE,
    FIRN_STEP_NPARTS
};
FIRN_API const char *firn_step_part_name(enum firn_step_part part);

/* Numbers that are not known are negative; not finite is refused. In JSON the
 * fields have the names they have here, what is not known is left out, and
 * part_s is an object by the names of the parts. */
enum { FIRN_MESSAGE_EMBEDDING = 32 };
struct firn_trainer_report {
    uint64_t step, epoch; /* done */
    double progress;      /* in [0, 1] */
    double effective;     /* steps, counting frozen ones by psi */
    double step_s;        /* mean since the last report */
    double part_s[FIRN_STEP_NPARTS];
    double loss, metric;
    double memory_mib, utilisation; /* of the fullest GPU; share */
    int batch, passes, nfrozen, nthreads, nprocs;
    double psi;
    const double *variance; /* per layer; NULL: none */
    size_t nlayers;
    double prepare_s; /* from the start of the process to its first step: data
                       * loaders, weights, the meeting of the processes */
    double embedding[FIRN_MESSAGE_EMBEDDING]; /* place of a fine-tuning task
                                               * (firn/transfer.h) */
    int nembedding;                           /* 0: none */
    int can; /* FIRN_CAN_* of the trainer (firn/can.h); in JSON the words,
              * "resize,passes". Words that are not known are passed over */
};
/* All numbers negative, no variance. */
FIRN_API struct firn_trainer_report firn_trainer_report_unknown(void);

/* What the scheduler orders; a negative number: no order. */
struct firn_orders {
    int nfrozen; /* layers, from the next boundary on */
    int passes;  /* sub-batches of a batch */
    int stop;    /* 1: checkpoint and exit at the next boundary */
    int batch;   /* samples of one step, over all GPUs, from the next
                  * boundary on */
};
/* No order at all. */
FIRN_API struct firn_orders firn_orders_none(void);

/* The longest text that is read, and the most layers of a report. */
enum { FIRN_MESSAGE_BYTES = 1 << 20, FIRN_MESSAGE_LAYERS = 1 << 14 };

/* Writes the report as JSON into `out` of `max` bytes; bytes needed, without
 * the terminator (more than max - 1: nothing was written). What is not finite
 * is left out like what is not known, and so is a variance of which one layer
 * is not finite, or of more than FIRN_MESSAGE_LAYERS. */
FIRN_API size_t firn_trainer_report_write(
    char *out, size_t max, const struct firn_trainer_report *report);
/* Reads one. `variance` has room for `nmax` layers, and the report points to
 * it; more layers are refused. Unknown keys are passed over, hostile input is
 * refused with a sentence; nothing in it can hurt. On failure `out` is as it
 * was, `variance` may have been written to. */
FIRN_API enum firn_status
firn_trainer_report_read(struct firn_trainer_report *out, double *variance,
                         size_t nmax, const char *text, size_t n,
                         struct firn_error *err);
FIRN_API size_t firn_orders_write(char *out, size_t max,
                                  const struct firn_orders *orders);
FIRN_API enum firn_status firn_orders_read(struct firn_orders *out,
                                           const char *text, size_t n,
                                           struct firn_error *err);

FIRN_C_END

#endif
