/* resizefile.h - the files by which an engine and a shepherd resize an attempt.
 *
 *     epoch-N/gpus      the GPUs that the attempt was started on
 *     epoch-N/launch-K  the workers of the layout of resize K
 *     epoch-N/resize    the last resize that was asked for: its number K, the
 *                       GPUs before and after, which workers are old ones
 *     epoch-N/resized   the last resize that is over, and how it went
 *
 * Written by the engine, but `resized` by the shepherd; each whole or not at
 * all (engine/attemptfiles.h). From them a later firnd finds out which GPUs the
 * processes of the attempt really use: those of `resize` before and after while
 * `resized` has a lower number, else the one of both that it says.
 */
#ifndef ENGINE_RESIZEFILE_H
#define ENGINE_RESIZEFILE_H
#include "base/vec.h"
#include "engine/attemptfiles.h"
#include <firn/alloc.h>

struct resize {
    int64_t number;
    double prepare_s;            /* limit until the joiners are ready */
    VEC(int) from;               /* by new rank: the old one; -1: joins */
    struct firn_alloc old, next; /* GPUs: parts alone */
};

struct resized {
    int64_t number;
    bool is_done;
    double pause_s, prepare_s;
    uint64_t step;
    char why[200];
};

void resize_release(struct resize *resize);
enum firn_status resize_put(int folder, const struct resize *resize,
                            struct firn_error *err);
enum attempt_found resize_get(int folder, struct resize *out);
enum firn_status resized_put(int folder, const struct resized *resized,
                             struct firn_error *err);
enum attempt_found resized_get(int folder, struct resized *out);
enum firn_status resize_gpus_put(int folder, const struct firn_alloc *gpus,
                                 struct firn_error *err);
enum attempt_found resize_gpus_get(int folder, struct firn_alloc *out);

/* By the order of the workers of both, one for each GPU: the old rank of each
 * new one; -1: joins. */
void resize_ranks(struct resize *resize);

#endif
