/* can.h - what a trainer can do when the scheduler orders it.
 *
 * A scheduler changes a running job only in ways that its trainer obeys. A
 * trainer names its abilities with its reports (firn/report.h); a job file
 * declares them beforehand (`can:`); an order that needs an ability which the
 * job lacks is never given. The words below are those of both.
 */
#ifndef FIRN_CAN_H
#define FIRN_CAN_H
#include <firn/api.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

enum firn_can {
    FIRN_CAN_RESIZE = 1,     /* "resize": goes on, on another number of GPUs */
    FIRN_CAN_PASSES = 2,     /* "passes": a batch in several passes */
    FIRN_CAN_FREEZE = 4,     /* "freeze": front layers are left untrained */
    FIRN_CAN_BATCH = 8,      /* "batch": another total batch */
    FIRN_CAN_PARTNER = 16,   /* "partner": trains a second job beside its own */
    FIRN_CAN_AFTER = 32,     /* "after": starts from another job's weights */
    FIRN_CAN_TENSOR = 64,    /* "tensor": a layer split over several GPUs */
    FIRN_CAN_SHARDED = 128,  /* "sharded": one copy of the weights over all */
    FIRN_CAN_PIPELINE = 256, /* "pipeline": the model in stages */
    FIRN_CAN_JOIN = 512, /* "join": processes come and go between two steps */
    FIRN_CAN_EXECUTORS = 1024, /* "executors": several processes on a GPU */
    FIRN_CAN_AHEAD = 2048, /* "ahead": waits for its GPUs once it is prepared */
    FIRN_CAN_ZERO = 4096,  /* "zero": stages 1 and 2 of ZeRO */
    FIRN_CAN_RECOMPUTE = 8192, /* "recompute": activations of layers again */
    FIRN_CAN_OFFLOAD = 16384   /* "offload": the optimizer on the host */
};
enum { FIRN_CAN_NONE = 0, FIRN_CAN_ALL = 32767, FIRN_CAN_WORDS = 15 };

/* Bytes that hold every list of words, with the terminator. */
enum { FIRN_CAN_TEXT = 128 };

/* The word of one ability; "?" when `can` is not exactly one. */
FIRN_API const char *firn_can_name(unsigned can);
/* The ability of a word of `n` bytes; 0: there is no such word. */
FIRN_API unsigned firn_can_named(const char *word, size_t n);
/* Writes "resize,passes", or "none" for no ability, in the order above. */
FIRN_API void firn_can_write(char out[FIRN_CAN_TEXT], unsigned can);
/* Reads words with commas or '|' between them; "none" and "all" stand alone.
 * False, and `can` is unchanged: the text has another word, or none. */
FIRN_API bool firn_can_read(const char *text, size_t n, unsigned *can);

FIRN_C_END

#endif
