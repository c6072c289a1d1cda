/* desk.h - a plan on the state of a scene, opened without a round.
 */
#ifndef LIB_DESK_H
#define LIB_DESK_H
#include "base/buf.h"
#include "core/plan.h"
#include "lib/scene.h"

struct desk {
    struct scene *scene;
    struct firn_view view;
    struct firn_plan plan;
    struct firn_buf text;
};

/* `text` describes a scene (scene.h). The policy is the toy that may do
 * everything. */
struct firn_plan *desk_open(struct desk *desk, const char *text);
void desk_close(struct desk *desk);
const struct firn_job *desk_job(const struct desk *desk, const char *name);
/* The allocation of a job in the plan; valid until the next call. */
const char *desk_has(struct desk *desk, const char *name);

#endif
