/* scene_random.h - random scenes, from a seed.
 *
 * Times and durations are whole seconds, so that sums are exact.
 */
#ifndef LIB_SCENE_RANDOM_H
#define LIB_SCENE_RANDOM_H
#include "base/rng.h"
#include "lib/trials.h"
#include "scene.h"

enum scene_kind {
    SCENE_TYPES = 1,   /* several GPU types */
    SCENE_CHOOSY = 2,  /* jobs that accept only some of them */
    SCENE_ELASTIC = 4, /* jobs with fewest and most */
    SCENE_SHARING = 8, /* jobs that accept half-shares */
    SCENE_ALIKE = 16,  /* jobs that keep to one type, if one can hold them */
    SCENE_MODELS = 32, /* jobs that merge, and language models */
    SCENE_UNABLE = 64, /* jobs whose trainers cannot do some things */
};

/* The text of a scene with some jobs; the caller releases it. */
struct firn_buf scene_random(struct rng *rng, unsigned kinds);

/* Lets some time pass (jobs that end in it end), then something happens: a job
 * comes or fails, a node goes or comes back, or nothing. No decision. Two
 * scenes in the same state with the same `rng` go the same way. */
void scene_shake(struct scene *scene, struct rng *rng, unsigned kinds);

#endif
