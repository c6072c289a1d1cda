/* scene.c - rounds driven by text, without the simulator.
 *
 * The engine checks its own side of the contract while it writes down the
 * steps: what a step frees comes before any START, a step names GPUs unless it
 * is a STOP, and the job is still as it was before the step.
 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "scene_text.h"
#include <cmocka.h>
#include <firn/parallel.h>
#include <math.h>
#include <string.h>

/* ---- the engine ---- */

static const char *name_of(const struct scene *scene, firn_job_id id)
{
    return scene->names.at[id];
}

static void add_word(struct firn_buf *out, const char *word, const char *name)
{
    buf_printf(out, "%s%s %s", out->n > 0 ? "; " : "", word, name);
}

static void note_does(struct scene *scene, const struct firn_step *step)
{
    static const unsigned does[] = {[FIRN_STEP_STOP] = FIRN_DOES_PREEMPT,
                                    [FIRN_STEP_RESIZE] = FIRN_DOES_RESIZE,
                                    [FIRN_STEP_MOVE] = FIRN_DOES_MOVE,
                                    [FIRN_STEP_START] = 0};
    if (!step->is_loss)
        scene->did |= does[step->kind];
    if (step->to->nparts > 0 && step->to->how.merged_with != FIRN_NO_JOB)
        scene->did |= FIRN_DOES_MERGE;
    else if (step->to->is_shared)
        scene->did |= FIRN_DOES_SHARE;
}

static enum firn_status engine_apply(void *state, const struct firn_step *step,
                                     struct firn_error *err)
{
    static const char *const words[] = {[FIRN_STEP_STOP] = "STOP",
                                        [FIRN_STEP_RESIZE] = "RESIZE",
                                        [FIRN_STEP_MOVE] = "MOVE",
                                        [FIRN_STEP_START] = "START"};
    struct scene *scene = state;
    if (scene->engine_fails)
        return firn_fail(err, FIRN_EIO, "the scene's engine is out of order");
    bool is_start = step->kind == FIRN_STEP_START;
    bool is_stop = step->kind == FIRN_STEP_STOP;
    assert_false(scene->starts_began && !is_start);
    scene->starts_began = is_start;
    assert_int_equal(is_start, step->job->held.nparts == 0);
    assert_int_equal(is_stop, step->to->nparts == 0);
    note_does(scene, step);
    add_word(&scene->steps, step->is_loss ? "LOSE" : words[step->kind],
             name_of(scene, step->job->id));
    if (!is_stop) {
        buf_putc(&scene->steps, ' ');
        firn_alloc_print(step->to, &scene->steps);
        vec_add(&scene->changed, step->job->id);
    }
    scene->nsteps++;
    return FIRN_OK;
}

static enum firn_status engine_settled(void *state, struct firn_error *err)
{
    (void)err;
    struct scene *scene = state;
    scene->nsettled++;
    return FIRN_OK;
}

double scene_amdahl(const struct firn_job *job, int gpus, int nodes)
{
    (void)job;
    return (nodes > 1 ? 0.9 : 1) * gpus / (1 + 0.1 * (gpus - 1));
}

/* The largest node decides how few can hold a job. */
static int fewest_nodes(const struct scene *scene, int gpus)
{
    int most = 1;
    for (int i = 0; i < scene->cluster.nnodes; i++)
        if (scene->cluster.nodes[i].ngpus > most)
            most = scene->cluster.nodes[i].ngpus;
    return (gpus + most - 1) / most;
}

static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double now_s)
{
    const struct scene *scene = state;
    (void)now_s;
    scene_speed *speed = scene->speed ? scene->speed : scene_amdahl;
    int nodes = way->nodes ? way->nodes : fewest_nodes(scene, way->gpus);
    int asked = fewest_nodes(scene, job->spec.gpus);
    double rate =
        speed(job, way->gpus, nodes) / speed(job, job->spec.gpus, asked);
    if (scene->has_fast_types && way->counts == NULL && way->type >= 0)
        rate *= scene->cluster.types[way->type].speed;
    if (!scene->has_ways)
        return rate;
    if (way->passes > 1)
        rate *= 1 - 0.01 * (way->passes < 50 ? way->passes : 50);
    rate *= way->parallel == FIRN_PARALLEL_SHARDED ? 1.2 : 1;
    return way->stages > 1 && way->gpus > 2 ? 1.5 * rate : rate;
}

/* A GPU has 16 GiB: two jobs of 12 fit if one of them goes in passes. */
static struct firn_load forecast_load(void *state, const struct firn_job *job,
                                      const struct firn_way *way)
{
    const struct scene *scene = state;
    int passes = way->passes > 1 ? way->passes : 1;
    (void)job;
    return (struct firn_load){(double)NAN,
                              scene->has_ways ? 12.0 / passes : (double)NAN};
}

static unsigned forecast_parallels(void *state, const struct firn_job *job)
{
    const struct scene *scene = state;
    return scene->has_ways && job->spec.seq == 0
               ? 1u << FIRN_PARALLEL_DATA | 1u << FIRN_PARALLEL_SHARDED |
                     1u << FIRN_PARALLEL_PIPELINE
               : 0;
}

/* Halves of a layer on two GPUs go faster than whole layers, and every third
 * job fits only if it saves memory. */
static size_t forecast_llm_ways(void *state, const struct firn_job *job,
                                struct firn_llm_way *out, size_t max)
{
    const struct scene *scene = state;
    size_t n = 0;
    for (int t = 0; t < scene->cluster.ntypes && scene->has_ways; t++)
        for (int tensor = 2; tensor >= 1 && job->spec.seq > 0; tensor--) {
            int gpus = job->spec.gpus;
            if (!(job->type_mask >> t & 1) || gpus % tensor != 0)
                continue;
            static const int saves[] = {
                FIRN_SAVES_STATE, FIRN_SAVES_ACTIVATIONS, FIRN_SAVES_HOST};
            int parallel =
                job->id % 3 == 0 ? saves[job->id / 3 % 3] : FIRN_PARALLEL_OWN;
            if (n < max)
                out[n] = (struct firn_llm_way){.way = {.gpus = gpus,
                                                       .type = t,
                                                       .tensor = tensor,
                                                       .parallel = parallel},
                                               .mem_gib = 12,
                                               .marp_gib = 12,
                                               .rate = tensor};
            n++;
        }
    return n;
}

static double forecast_slowdown(void *state, const struct firn_job *job,
                                const struct firn_job *other)
{
    (void)state;
    (void)job;
    (void)other;
    return 1.1;
}

static bool forecast_merge(void *state, const struct firn_job *a,
                           const struct firn_job *b, enum firn_merge_kind kind,
                           const struct firn_way *way, double now_s,
                           struct firn_merge *out)
{
    double both_s = 0;
    const struct firn_job *two[] = {a, b};
    for (int i = 0; i < 2; i++)
        both_s += (two[i]->spec.duration_s - firn_job_done_s(two[i], now_s)) /
                  forecast_rate(state, two[i], way, now_s);
    *out = (struct firn_merge){
        .left_s = {both_s / 2, both_s / 2}, .weight = 1.5, .epoch_s = both_s};
    return kind == FIRN_MERGE_TOGETHER ||
           (((struct scene *)state)->has_ways && (a->id + b->id) % 2 == 1);
}

static void forecast_costs(void *state, const struct firn_job *job,
                           struct firn_costs *out)
{
    const struct scene *scene = state;
    if (scene->starts_s == NULL)
        return;
    double left_s = job->spec.duration_s - firn_job_done_s(job, scene->now_s);
    out->first_s = scene->starts_s[job->id];
    out->idle_s = left_s * out->first_s / job->spec.duration_s;
}

static const struct firn_forecast_def forecast = {
    .merge = forecast_merge,
    .rate = forecast_rate,
    .slowdown = forecast_slowdown,
    .load = forecast_load,
    .parallels = forecast_parallels,
    .llm_ways = forecast_llm_ways,
    .costs = forecast_costs,
};

static const struct firn_engine_def engine = {
    .name = "scene",
    .summary = "writes steps down",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .apply = engine_apply,
    .settled = engine_settled,
};

static void on_end(void *arg, const struct firn_job *job, const char *how,
                   double now_s, double finished_s)
{
    (void)finished_s;
    (void)now_s;
    struct scene *scene = arg;
    const char *word = "DONE";
    if (strcmp(how, "reject") == 0) {
        word = "REJECT";
        scene->did |= FIRN_DOES_REJECT;
    } else if (strcmp(how, "fail") == 0) {
        word = "FAIL";
    }
    add_word(&scene->steps, word, name_of(scene, job->id));
}

/* ---- events ---- */

static void send(struct scene *scene, struct firn_event event)
{
    struct firn_error err = {0};
    event.at_s = scene->now_s;
    if (round_event(scene->round, &event, &err) != FIRN_OK)
        fail_msg("scene: %s", err.text);
}

static void report(struct scene *scene, firn_job_id id, double done_s,
                   double rate)
{
    send(scene, (struct firn_event){
                    .kind = FIRN_EVENT_REPORT,
                    .job = id,
                    .report = {done_s, rate, scene->now_s + scene->restart_s}});
}

/* Gives a job that was just submitted its past. */
static void make_old(struct scene *scene, firn_job_id id,
                     const struct scene_said *said)
{
    struct firn_job *job = state_job(scene_state(scene), id);
    job->served_gpu_s = said->served_gpu_s;
    job->held_s = said->held_s;
    job->starts = said->held_s > 0 || said->served_gpu_s > 0;
    if (said->on != NULL) {
        struct firn_alloc held = alloc_read(said->on, &scene->text);
        state_hold(scene_state(scene), job, &held, scene->now_s);
    }
    send(scene, (struct firn_event){
                    .kind = FIRN_EVENT_REPORT,
                    .job = id,
                    .report = {said->done_s, said->on ? 1 : 0, scene->now_s}});
}

static void submit(struct scene *scene, firn_job_id id,
                   const struct firn_job_spec *spec)
{
    send(scene, (struct firn_event){
                    .kind = FIRN_EVENT_SUBMIT, .job = id, .spec = spec});
}

static void read_job(struct scene *scene, char *clause)
{
    struct scene_said said = scene_said(clause);
    firn_job_id id = (firn_job_id)scene->names.n;
    vec_add(&scene->names, said.spec.name);
    if (said.spec.submit_s > scene->now_s) {
        struct scene_job later = {id, said.spec};
        vec_add(&scene->later, later);
        return;
    }
    said.spec.submit_s = scene->now_s;
    submit(scene, id, &said.spec);
    if (said.barred != NULL)
        round_bar(scene->round, id, said.barred);
    if (said.is_old)
        make_old(scene, id, &said);
}

/* ---- life ---- */

static void open_round(struct scene *scene,
                       const struct firn_policy_def *policy,
                       const char *settings)
{
    enum { MAX = 8 };
    const char *list[MAX];
    size_t n = 0;
    char *at = arena_strdup(&scene->text, settings ? settings : "");
    for (at += strspn(at, " "); *at != '\0' && n < MAX;) {
        list[n++] = at;
        at += strcspn(at, " ");
        if (*at != '\0')
            *at++ = '\0';
    }
    struct round_config config = {.cluster = &scene->cluster,
                                  .policy = policy,
                                  .settings = list,
                                  .nsettings = n,
                                  .engine = &engine,
                                  .engine_state = scene,
                                  .watch = {.arg = scene, .end = on_end}};
    struct firn_error err = {0};
    if (round_new(&scene->round, &config, &err) != FIRN_OK)
        fail_msg("scene: %s", err.text);
}

void scene_hand_over(struct scene *scene, const struct firn_policy_def *policy)
{
    struct round *old = scene->round;
    open_round(scene, policy, NULL);
    for (const struct state_job *sj = round_state(old)->first; sj;
         sj = sj->after) {
        const struct firn_job *job = &sj->job;
        struct firn_job_spec spec = job->spec;
        struct round_job as = {
            .id = job->id, .spec = &spec, .held = &job->held};
        struct firn_error err = {0};
        as.past = (struct state_past){
            .since_s = job->since_s,
            .first_start_s = job->first_start_s,
            .held_s = job->held_s,
            .served_gpu_s = job->served_gpu_s,
            .starts = job->starts,
            .gpus_most = job->gpus_most,
            .report = {job->done_s, job->rate, job->resumes_s}};
        if (round_restore(scene->round, &as, scene->now_s, &err) != FIRN_OK)
            fail_msg("scene: %s", err.text);
    }
    for (firn_node_id n = 0; n < scene->cluster.nnodes; n++) {
        struct firn_event down = {
            .kind = FIRN_EVENT_NODE_DOWN, .at_s = scene->now_s, .node = n};
        struct firn_error err = {0};
        if (!round_state(old)->cluster.nodes[n].is_up &&
            round_event(scene->round, &down, &err) != FIRN_OK)
            fail_msg("scene: %s", err.text);
    }
    round_free(old);
}

/* Reads the clauses about machines; returns the first other one. */
static char *open_cluster(struct scene *scene, char **at)
{
    struct firn_buf spec = {0};
    struct firn_error err = {0};
    int share = 0;
    char *clause;
    while ((clause = scene_clause(at)) != NULL &&
           scene_machines(clause, &spec, &share))
        continue;
    if (spec.n == 0 ||
        firn_cluster_parse_spec(&scene->cluster, spec.at, &err) != FIRN_OK)
        fail_msg("scene: no machines: %s", err.text);
    buf_release(&spec);
    if (share > 0)
        scene->cluster.jobs_per_gpu = share;
    return clause;
}

struct scene *scene_new(const char *text, const struct firn_policy_def *policy,
                        const char *settings)
{
    struct scene *scene = mem_new(1, sizeof *scene);
    char *at = arena_strdup(&scene->text, text);
    char *clause = open_cluster(scene, &at);
    open_round(scene, policy, settings);
    for (; clause != NULL; clause = scene_clause(&at)) {
        firn_node_id node;
        if (scene_down(clause, &node))
            scene_node(scene, node, false);
        else
            read_job(scene, clause);
    }
    buf_clear(&scene->steps);
    return scene;
}

void scene_free(struct scene *scene)
{
    if (scene == NULL)
        return;
    round_free(scene->round);
    firn_cluster_release(&scene->cluster);
    arena_release(&scene->text);
    vec_release(&scene->names);
    vec_release(&scene->later);
    vec_release(&scene->changed);
    buf_release(&scene->steps);
    buf_release(&scene->shown);
    buf_release(&scene->log);
    mem_free(scene);
}

/* ---- driving ---- */

void scene_submit(struct scene *scene, const char *clause)
{
    read_job(scene, arena_strdup(&scene->text, clause));
}

static void end(struct scene *scene, const char *name,
                enum firn_event_kind kind)
{
    const struct firn_job *job = scene_job(scene, name);
    if (job == NULL)
        fail_msg("scene: there is no job %s", name);
    send(scene, (struct firn_event){.kind = kind, .job = job->id});
}

void scene_done(struct scene *scene, const char *name)
{
    end(scene, name, FIRN_EVENT_DONE);
}

void scene_fail(struct scene *scene, const char *name)
{
    end(scene, name, FIRN_EVENT_FAIL);
}

void scene_node(struct scene *scene, firn_node_id node, bool is_up)
{
    scene->starts_began = false;
    send(scene, (struct firn_event){.kind = is_up ? FIRN_EVENT_NODE_UP
                                                  : FIRN_EVENT_NODE_DOWN,
                                    .node = node});
}

void scene_timer(struct scene *scene)
{
    send(scene, (struct firn_event){.kind = FIRN_EVENT_TIMER});
}

/* Submits the jobs whose time has come. */
static void come_in(struct scene *scene)
{
    while (scene->nlater < scene->later.n) {
        struct scene_job *job = &scene->later.at[scene->nlater];
        if (job->spec.submit_s > scene->now_s)
            return;
        submit(scene, job->id, &job->spec);
        scene->nlater++;
    }
}

/* Decides, and reports for the jobs that got GPUs. */
static enum firn_status decide(struct scene *scene, struct firn_error *err)
{
    scene->starts_began = false;
    scene->changed.n = 0;
    FIRN_TRY(round_decide(scene->round, scene->now_s, err));
    for (size_t i = 0; i < scene->changed.n; i++) {
        firn_job_id id = scene->changed.at[i];
        const struct firn_job *job = state_job(scene_state(scene), id);
        report(scene, id, job->done_s, 1);
    }
    return FIRN_OK;
}

enum firn_status scene_try(struct scene *scene, double now_s,
                           struct firn_error *err)
{
    scene->now_s = now_s;
    come_in(scene);
    round_tick(scene->round, now_s);
    buf_clear(&scene->steps);
    return decide(scene, err);
}

void scene_decide(struct scene *scene, double now_s)
{
    struct firn_error err = {0};
    if (scene_try(scene, now_s, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

static double done_at_s(const struct firn_job *job)
{
    if (job->state != FIRN_JOB_RUNNING || job->rate <= 0)
        return INFINITY;
    return job->resumes_s + (job->spec.duration_s - job->done_s) / job->rate;
}

double scene_next_done_s(const struct scene *scene)
{
    double next_s = INFINITY;
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        next_s = fmin(next_s, done_at_s(&sj->job));
    return next_s;
}

static void finish(struct scene *scene)
{
    struct state_job *sj = scene_state(scene)->first, *after;
    for (; sj != NULL; sj = after) {
        after = sj->after;
        if (done_at_s(&sj->job) <= scene->now_s)
            send(scene, (struct firn_event){.kind = FIRN_EVENT_DONE,
                                            .job = sj->job.id});
    }
}

static double next_s(const struct scene *scene)
{
    double at_s = fmin(scene_next_done_s(scene), round_wake_s(scene->round));
    if (scene->nlater < scene->later.n)
        at_s = fmin(at_s, scene->later.at[scene->nlater].spec.submit_s);
    if (round_is_due(scene->round))
        at_s = scene->now_s;
    return at_s;
}

const char *scene_play(struct scene *scene, double until_s)
{
    struct firn_error err = {0};
    buf_clear(&scene->log);
    buf_puts(&scene->log, "");
    for (double at_s; (at_s = next_s(scene)) <= until_s && isfinite(at_s);) {
        scene->now_s = at_s;
        buf_clear(&scene->steps);
        finish(scene);
        come_in(scene);
        round_tick(scene->round, at_s);
        if (round_is_due(scene->round) && decide(scene, &err) != FIRN_OK)
            fail_msg("%s", err.text);
        if (scene->steps.n == 0)
            continue;
        buf_double(&scene->log, at_s);
        buf_printf(&scene->log, ": %s\n", scene->steps.at);
    }
    return scene->log.at;
}

/* ---- looking ---- */

const char *scene_text(struct scene *scene)
{
    struct firn_buf *out = &scene->shown;
    buf_clear(out);
    buf_puts(out, "");
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after) {
        buf_printf(out, "%s%s: ", out->n > 0 ? "  " : "",
                   name_of(scene, sj->job.id));
        firn_alloc_print(&sj->job.held, out);
    }
    return out->at;
}

const char *scene_steps(const struct scene *scene)
{
    return scene->steps.n > 0 ? scene->steps.at : "";
}

const struct firn_job *scene_job(const struct scene *scene, const char *name)
{
    for (size_t i = 0; i < scene->names.n; i++)
        if (strcmp(scene->names.at[i], name) == 0)
            return state_job(scene_state(scene), (firn_job_id)i);
    return NULL;
}

struct state *scene_state(const struct scene *scene)
{
    return (struct state *)round_state(scene->round);
}

struct firn_alloc scene_alloc(struct scene *scene, const char *text)
{
    return alloc_read(text, &scene->text);
}
