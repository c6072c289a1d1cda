/* desk.c - a plan opened by hand, and closed without a trace.
 */
#include "lib/desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/alloc_text.h"
#include "lib/toys.h"
#include <cmocka.h>
#include <string.h>

struct firn_plan *desk_open(struct desk *desk, const char *text)
{
    memset(desk, 0, sizeof *desk);
    desk->scene = scene_new(text, &toy_elastic, NULL);
    desk->view = round_view(desk->scene->round, 0);
    plan_init(&desk->plan, scene_state(desk->scene), NULL);
    for (int i = 0; i < desk->scene->cluster.nnodes; i++)
        assert_int_equal(desk->plan.empty.node_free[i],
                         scene_state(desk->scene)->cluster.nodes[i].is_up
                             ? desk->scene->cluster.nodes[i].ngpus
                             : 0);
    plan_open(&desk->plan, &desk->view);
    return &desk->plan;
}

void desk_close(struct desk *desk)
{
    plan_close(&desk->plan);
    plan_clear(&desk->plan);
    plan_release(&desk->plan);
    scene_free(desk->scene);
    buf_release(&desk->text);
}

const struct firn_job *desk_job(const struct desk *desk, const char *name)
{
    const struct firn_job *found = scene_job(desk->scene, name);
    assert_non_null(found);
    return found;
}

/* What a job has in the plan. */
const char *desk_has(struct desk *desk, const char *name)
{
    buf_clear(&desk->text);
    firn_alloc_print(firn_plan_of(&desk->plan, desk_job(desk, name)),
                     &desk->text);
    return desk->text.at;
}
