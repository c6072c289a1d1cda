/* policy_liar.c - wrong plans, one kind for each value of its option.
 *
 * The lie is about the first waiting job, or the first running one where the
 * table says so, and often uses GPUs of node 0. Honest until a TIMER event,
 * and again after the next: a test can see that core goes on after a refusal.
 */
#include "toys.h"
#include <firn/parallel.h>

struct liar {
    int lie;
    bool is_armed;
};

struct stage {
    const struct firn_view *view;
    struct firn_plan *plan;
    const struct firn_job *job;  /* the lie is about */
    const struct firn_job *host; /* the first running one, or NULL */
};

/* The first GPUs of a node, as many as the job asks for. */
static void place_on(const struct stage *s, firn_node_id node, int first,
                     bool is_shared)
{
    int n = s->job->spec.gpus;
    struct firn_part part = {node, 0, (((uint64_t)1 << n) - 1) << first};
    struct firn_alloc alloc = {&part,     1, n,
                               is_shared, 0, FIRN_HOW_AS_SUBMITTED};
    firn_plan_place(s->plan, s->job, &alloc);
}

static void oversubscribe(const struct stage *s)
{
    firn_plan_place(s->plan, s->job, &s->host->held);
}

static void same_gpus_twice(const struct stage *s)
{
    place_on(s, 0, 0, false);
    struct stage other = *s;
    other.job = firn_view_waiting(s->view)[1];
    place_on(&other, 0, 0, false);
}

static void split(const struct stage *s)
{
    firn_plan_give(s->plan, s->job, s->job->spec.gpus - 1);
}

static void too_many(const struct stage *s)
{
    firn_plan_give(s->plan, s->job, s->job->spec.gpus_max + 1);
}

static void wrong_type(const struct stage *s)
{
    const struct firn_cluster *cluster = s->view->cluster;
    for (int i = 0; i < cluster->nnodes; i++)
        if ((s->job->type_mask >> cluster->nodes[i].type & 1) == 0) {
            place_on(s, i, 0, false);
            return;
        }
}

static void dead_node(const struct stage *s)
{
    for (int i = 0; i < s->view->cluster->nnodes; i++)
        if (!s->view->cluster->nodes[i].is_up) {
            place_on(s, i, 0, false);
            return;
        }
}

static void no_node(const struct stage *s)
{
    place_on(s, s->view->cluster->nnodes, 0, false);
}

static void negative_node(const struct stage *s)
{
    place_on(s, -1, 0, false);
}

static void no_gpu(const struct stage *s)
{
    place_on(s, 0, s->view->cluster->nodes[0].ngpus, false);
}

static void no_board(const struct stage *s)
{
    struct firn_part part = {0, 1, 1};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){&part, 1, 1, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void negative_board(const struct stage *s)
{
    struct firn_part part = {0, -1, 1};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){&part, 1, 1, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void empty_part(const struct stage *s)
{
    struct firn_part parts[] = {{0, 0, 3}, {1, 0, 0}};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){parts, 2, 2, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void node_twice(const struct stage *s)
{
    struct firn_part parts[] = {{0, 0, 1}, {0, 0, 2}};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){parts, 2, 2, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void gpu_twice(const struct stage *s)
{
    struct firn_part parts[] = {{0, 0, 1}, {0, 0, 1}};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){parts, 2, 2, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void out_of_order(const struct stage *s)
{
    struct firn_part parts[] = {{1, 0, 1}, {0, 0, 1}};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){parts, 2, 2, false, 0, FIRN_HOW_AS_SUBMITTED});
}

static void wrong_count(const struct stage *s)
{
    struct firn_part part = {0, 0, 1};
    firn_plan_place(s->plan, s->job,
                    &(struct firn_alloc){&part, 1, s->job->spec.gpus, false, 0,
                                         FIRN_HOW_AS_SUBMITTED});
}

static void nothing(const struct stage *s)
{
    firn_plan_place(s->plan, s->job, &(struct firn_alloc)FIRN_ALLOC_NONE);
}

/* Stages that do not divide its GPUs. */
static void odd_stages(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    struct firn_want want = {.gpus = s->job->spec.gpus, .how = &how};
    how.stages = 2;
    firn_plan_give_want(s->plan, s->job, &want);
}

/* Right GPUs, but `how` was never initialised. */
/* As it asked, but run so. */
static void run_as(const struct stage *s, struct firn_how how)
{
    firn_plan_give_want(
        s->plan, s->job,
        &(struct firn_want){.gpus = s->job->spec.gpus, .how = &how});
}

static void passes(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.passes = 2;
    run_as(s, how);
}

static void tensor(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.tensor = 2;
    run_as(s, how);
}

static void sharded(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.parallel = FIRN_PARALLEL_SHARDED;
    run_as(s, how);
}

static void stages(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.parallel = FIRN_PARALLEL_PIPELINE;
    how.stages = 2;
    run_as(s, how);
}

static void after(const struct stage *s)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.after = 0;
    run_as(s, how);
}

static void zeroed_how(const struct stage *s)
{
    struct firn_part part = {0, 0, ((uint64_t)1 << s->job->spec.gpus) - 1};
    firn_plan_place(
        s->plan, s->job,
        &(struct firn_alloc){&part, 1, s->job->spec.gpus, false, 0, {0}});
}

static void preempt(const struct stage *s)
{
    firn_plan_drop(s->plan, s->host);
}

static void resize(const struct stage *s)
{
    firn_plan_give(s->plan, s->host, s->host->held.ngpus + 1);
}

static void move(const struct stage *s)
{
    struct stage other = *s;
    other.job = s->host;
    place_on(&other, 1, 0, false);
}

static void share(const struct stage *s)
{
    place_on(s, 0, 0, true);
}

static void share_a_whole_one(const struct stage *s)
{
    struct firn_alloc alloc = s->host->held;
    alloc.is_shared = true;
    firn_plan_place(s->plan, s->job, &alloc);
}

/* Half-shares on GPUs that are full already. */
static void crowd(const struct stage *s)
{
    firn_plan_place(s->plan, s->job, &s->host->held);
}

/* The first two that wait as one training. */
static void merge(const struct stage *s)
{
    const struct firn_job *two[2] = {s->job, firn_view_waiting(s->view)[1]};
    struct firn_part part = {0, 0, ((uint64_t)1 << s->job->spec.gpus) - 1};
    for (int i = 0; i < 2; i++) {
        struct firn_alloc alloc = {&part, 1, s->job->spec.gpus,
                                   true,  0, FIRN_HOW_AS_SUBMITTED};
        alloc.how.merged_with = two[1 - i]->id;
        firn_plan_place(s->plan, two[i], &alloc);
    }
}

/* The second knows nothing of it. */
static void merge_one_sided(const struct stage *s)
{
    struct firn_part part = {0, 0, ((uint64_t)1 << s->job->spec.gpus) - 1};
    struct firn_alloc alloc = {&part, 1, s->job->spec.gpus,
                               true,  0, FIRN_HOW_AS_SUBMITTED};
    alloc.how.merged_with = firn_view_waiting(s->view)[1]->id;
    firn_plan_place(s->plan, s->job, &alloc);
}

static void merge_with_itself(const struct stage *s)
{
    struct firn_part part = {0, 0, ((uint64_t)1 << s->job->spec.gpus) - 1};
    struct firn_alloc alloc = {&part, 1, s->job->spec.gpus,
                               true,  0, FIRN_HOW_AS_SUBMITTED};
    alloc.how.merged_with = s->job->id;
    firn_plan_place(s->plan, s->job, &alloc);
}

static void reject(const struct stage *s)
{
    firn_plan_reject(s->plan, s->job, "not liked");
}

static void fail_without_words(const struct stage *s)
{
    firn_plan_give(s->plan, s->job, s->job->spec.gpus);
}

#define LIES(X)                               \
    X("oversubscribe", oversubscribe)         \
    X("same-gpus-twice", same_gpus_twice)     \
    X("split", split)                         \
    X("too-many", too_many)                   \
    X("wrong-type", wrong_type)               \
    X("dead-node", dead_node)                 \
    X("no-node", no_node)                     \
    X("negative-node", negative_node)         \
    X("no-gpu", no_gpu)                       \
    X("no-board", no_board)                   \
    X("negative-board", negative_board)       \
    X("empty-part", empty_part)               \
    X("node-twice", node_twice)               \
    X("gpu-twice", gpu_twice)                 \
    X("out-of-order", out_of_order)           \
    X("wrong-count", wrong_count)             \
    X("nothing", nothing)                     \
    X("odd-stages", odd_stages)               \
    X("zeroed-how", zeroed_how)               \
    X("preempt", preempt)                     \
    X("resize", resize)                       \
    X("move", move)                           \
    X("share", share)                         \
    X("share-a-whole-one", share_a_whole_one) \
    X("crowd", crowd)                         \
    X("merge", merge)                         \
    X("passes", passes)                       \
    X("tensor", tensor)                       \
    X("sharded", sharded)                     \
    X("stages", stages)                       \
    X("after", after)                         \
    X("merge-one-sided", merge_one_sided)     \
    X("merge-with-itself", merge_with_itself) \
    X("reject", reject)                       \
    X("fail", fail_without_words)

static const char *const names[] = {
#define X(name, tell) name,
    LIES(X)
#undef X
        NULL};

static void (*const lies[])(const struct stage *) = {
#define X(name, tell) tell,
    LIES(X)
#undef X
};

static const struct firn_option options[] = {
    {.name = "lie",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "oversubscribe",
     .choices = names,
     .help = "what is wrong with its plans",
     .offset = offsetof(struct liar, lie)},
    {0},
};

static void observe(void *state, const struct firn_event *event)
{
    struct liar *liar = state;
    if (event->kind == FIRN_EVENT_TIMER)
        liar->is_armed = !liar->is_armed;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct liar *liar = state;
    if (!liar->is_armed)
        return toy_greedy.decide(NULL, view, plan);
    struct stage stage = {.view = view, .plan = plan};
    if (view->nwaiting > 0)
        stage.job = firn_view_waiting(view)[0];
    if (view->nrunning > 0)
        stage.host = firn_view_running(view)[0];
    firn_plan_keep_all(plan);
    lies[liar->lie](&stage);
    return lies[liar->lie] == fail_without_words ? FIRN_EDATA : FIRN_OK;
}

const struct firn_policy_def toy_liar = {
    .name = "liar",
    .summary = "plans that core must refuse",
    .options = options,
    .state_size = sizeof(struct liar),
    .decide = decide,
    .observe = observe,
};
