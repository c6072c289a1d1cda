/* ahead.h - a process that is started before the GPUs of its job are free.
 *
 * Most of a start is loading libraries, reading data and building a model on
 * the host: none of it needs a GPU. A program that calls firn_ahead_wait()
 * behind that work and before its first use of a GPU may be started early: the
 * call then returns when the scheduler has given the job its GPUs, with the
 * environment of that start (RANK, WORLD_SIZE, CUDA_VISIBLE_DEVICES, FIRN_*).
 * Until then the program sees no GPU. A trainer that calls it reports the
 * ability "ahead" (firn/can.h); other programs are never started early.
 */
#ifndef FIRN_AHEAD_H
#define FIRN_AHEAD_H
#include <firn/api.h>
#include <stdbool.h>

FIRN_C_BEGIN

/* Waits until the job has its GPUs; at once in a process that was started when
 * they were free. True: it was prepared, and its environment has changed. Ends
 * the process if the scheduler does not need it any more. Call it in one
 * thread, before others read the environment. */
FIRN_API bool firn_ahead_wait(void);
/* Has this process called it? */
FIRN_API bool firn_ahead_was_called(void);

FIRN_C_END

#endif
