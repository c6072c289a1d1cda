/* test_invariants.c - what holds after every event and every decision.
 *
 * Toy policies that start, share, resize, move and stop jobs are driven
 * through random events. After each round:
 *
 * (1) the free map is what one gets by taking what each job holds, one by one,
 *     on an empty map;
 * (2) a job runs exactly when it holds GPUs, and counts and lists agree;
 * (3) service and time held are what a second book-keeper has, who looks at
 *     what each job holds between two moments;
 * (4) what a job holds is within what it allows; of a job that keeps to one
 *     type, of the type that it has held from its first start on.
 */
#include "core/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <string.h>

enum { JOBS_MAX = 256 };

/* The second book-keeper, by job id. */
struct books {
    firn_type_id type[JOBS_MAX]; /* it keeps to, and 1; 0: not yet */
    double served_gpu_s[JOBS_MAX], held_s[JOBS_MAX];
    int gpus[JOBS_MAX]; /* held since at_s */
    double at_s;
};

static void look(struct books *books, const struct scene *scene)
{
    memset(books->gpus, 0, sizeof books->gpus);
    books->at_s = scene->now_s;
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        books->gpus[sj->job.id] = sj->job.held.ngpus;
}

static void add_up(struct books *books, const struct scene *scene)
{
    double dt_s = scene->now_s - books->at_s;
    for (int i = 0; i < JOBS_MAX; i++) {
        books->served_gpu_s[i] += books->gpus[i] * dt_s;
        books->held_s[i] += books->gpus[i] > 0 ? dt_s : 0;
    }
}

/* (3) */
static void compare_books(const struct books *books, const struct scene *scene,
                          uint64_t seed)
{
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        bool runs = job->state == FIRN_JOB_RUNNING;
        double held_s = job->held_s + (runs ? scene->now_s - job->since_s : 0);
        if (firn_job_served_gpu_s(job, scene->now_s) !=
                books->served_gpu_s[job->id] ||
            held_s != books->held_s[job->id])
            fail_msg("seed %llu at %g s: job %s was served %g, not %g",
                     (unsigned long long)seed, scene->now_s, job->spec.name,
                     firn_job_served_gpu_s(job, scene->now_s),
                     books->served_gpu_s[job->id]);
    }
}

/* (1) */
static void compare_map(struct scene *scene, uint64_t seed)
{
    struct state *state = scene_state(scene);
    struct freemap fresh;
    freemap_init(&fresh, &state->cluster);
    for (struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.held.nparts > 0)
            freemap_take(&fresh, &sj->job.held);
    struct firn_buf a = freemap_text(&fresh), b = freemap_text(&state->map);
    if (strcmp(a.at, b.at) != 0)
        fail_msg("seed %llu at %g s: %s: the map is %s, should be %s",
                 (unsigned long long)seed, scene->now_s, scene_text(scene),
                 b.at, a.at);
    buf_release(&a);
    buf_release(&b);
    freemap_release(&fresh);
}

/* (2) and (4) */
static void check_jobs(const struct scene *scene)
{
    const struct state *state = scene_state(scene);
    size_t waiting = 0, running = 0, choosy = 0;
    int last = -1;
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        bool runs = job->held.nparts > 0;
        assert_true(job->id > last);
        last = job->id;
        assert_ptr_equal(state->by_slot.at[job->slot], sj);
        assert_ptr_equal(state_job(state, job->id), job);
        assert_int_equal(job->state,
                         runs ? FIRN_JOB_RUNNING : FIRN_JOB_WAITING);
        running += runs;
        waiting += !runs;
        choosy += job->spec.one_type ||
                  job->type_mask != (1u << state->cluster.ntypes) - 1;
        assert_true(!runs || (job->held.ngpus >= job->spec.gpus_min &&
                              job->held.ngpus <= job->spec.gpus_max));
        assert_true(!job->held.is_shared || !runs || job->spec.may_share);
        for (int i = 0; i < job->held.nparts; i++) {
            int node = job->held.parts[i].node;
            assert_true(state->cluster.nodes[node].is_up);
            assert_true(job->type_mask >> state->cluster.nodes[node].type & 1);
        }
    }
    assert_int_equal(state->nwaiting, waiting);
    assert_int_equal(state->nrunning, running);
    assert_int_equal(state->nchoosy, choosy);
}

/* (4) */
static void check_types(struct books *books, const struct scene *scene)
{
    const struct state *state = scene_state(scene);
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        firn_type_id *type = &books->type[job->id];
        for (int i = 0; job->spec.one_type && i < job->held.nparts; i++) {
            const struct firn_node *node =
                &state->cluster.nodes[job->held.parts[i].node];
            if (*type == 0)
                *type = node->type + 1;
            assert_int_equal(node->type + 1, *type);
        }
    }
}

static void drive(const struct firn_policy_def *policy, uint64_t seed,
                  unsigned more)
{
    const unsigned kinds =
        SCENE_TYPES | SCENE_CHOOSY | SCENE_ELASTIC | SCENE_SHARING | more;
    struct books books = {.at_s = 0};
    struct rng rng;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = scene_new(text.at, policy, NULL);
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        books.served_gpu_s[sj->job.id] = sj->job.served_gpu_s;
    for (int round = 0; round < 60; round++) {
        scene_decide(scene, scene->now_s);
        compare_map(scene, seed);
        check_jobs(scene);
        check_types(&books, scene);
        look(&books, scene);
        scene_shake(scene, &rng, kinds);
        add_up(&books, scene);
        compare_map(scene, seed);
        check_jobs(scene);
        compare_books(&books, scene, seed);
    }
    assert_true(scene->names.n < JOBS_MAX);
    assert_int_equal(scene->did & ~policy->does, 0);
    buf_release(&text);
    scene_free(scene);
}

static void drive_all(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(60); i++)
        drive(policy, (uint64_t)i, 0);
    for (int i = 0; i < trials(30); i++)
        drive(policy, (uint64_t)(1000 + i), SCENE_ALIKE);
}

static void invariants_hold_while_jobs_only_start(void **unused)
{
    (void)unused;
    drive_all(&toy_greedy);
    drive_all(&toy_one_by_one);
}

static void invariants_hold_while_jobs_share(void **unused)
{
    (void)unused;
    drive_all(&toy_sharer);
}

static void invariants_hold_while_jobs_stop_move_and_resize(void **unused)
{
    (void)unused;
    drive_all(&toy_elastic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_while_jobs_only_start),
        cmocka_unit_test(invariants_hold_while_jobs_share),
        cmocka_unit_test(invariants_hold_while_jobs_stop_move_and_resize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
