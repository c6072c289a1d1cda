/* test_forecast_restart.c - eta, plan and why after a restart: they end, for
 * every kind of job and for random scenes, within the bound that dryrunwork.h
 * states.
 *
 * A forecast that never ended would hang the scheduler: an alarm ends the test
 * then, and says so. The seed of a random scene is printed when it fails;
 * FIRN_SOAK=1 tries twenty times as many.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "daemon/dryrunwork.h"
#include "daemon/jobfile.h"
#include "lib/trials.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANGS_S = 300 };

/* A kind of job, and what happens to it before the restart. */
struct kind {
    const char *name, *lines, *policy;
    void (*before)(struct loopscene *s);
};

static void hold_it(struct loopscene *s)
{
    loopscene_hold(s, loopscene_job(s, "a"), true);
}

static void cancel_it(struct loopscene *s)
{
    loopscene_cancel(s, loopscene_job(s, "a"));
}

static void fail_it(struct loopscene *s)
{
    loopscene_fail(s, "a", FIRN_END_FAILED, 1);
}

static void report_it(struct loopscene *s)
{
    loopscene_report(s, "a", 0.25, 1, 1024);
}

static void add_partner(struct loopscene *s)
{
    loopscene_submit(s, "b", LOOPSCENE_TASK("two"));
    loopscene_turn(s);
}

static void add_sharer(struct loopscene *s)
{
    loopscene_submit(s, "b",
                     "gpus: 1\nmemory: 4\nshare: allowed\n"
                     "checkpoint: {grace: 10}\nduration: 1000s");
    loopscene_turn(s);
}

static void add_inbox(struct loopscene *s)
{
    struct firn_inbox inbox = {.key = "7.1",
                               .name = "inbox-job",
                               .user = "ann",
                               .types = "",
                               .gpus = 1,
                               .limit_s = 0};
    loopscene_event(
        s, (struct firn_event){.kind = FIRN_EVENT_INBOX, .inbox = &inbox});
}

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}\n"

static const struct kind kinds[] = {
    {"rigid", "gpus: 1", "fifo", NULL},
    {"rigid with a duration", "gpus: 1\nduration: 100s", "fifo", NULL},
    {"rigid that reports", "gpus: 1", "fifo", report_it},
    {"restartable", "gpus: 1\nrestart: allowed", "srtf", NULL},
    {"checkpointing", SOFT, "fifo", NULL},
    {"checkpointing that reports", SOFT, "srtf", report_it},
    {"elastic", "gpus: 1..2\nelastic: {consistency: D2, scan: insist}",
     "pollux", NULL},
    {"elastic threads", "gpus: 1..2\nelastic: {threads: 2}", "easyscale", NULL},
    {"shared", "gpus: 1\nmemory: 4\nshare: allowed\ncheckpoint: {grace: 10}",
     "sjf-bsbf", add_sharer},
    {"frozen", "gpus: 1\nfreeze: {max: 40%}\ncheckpoint: {grace: 10}",
     "icefrog", NULL},
    {"frozen and rigid", "gpus: 1\nfreeze: {max: 40%}", "icefrog", NULL},
    {"language model", "batch: 8\nmodel: {name: gpt2, seq: 512}", "frenzy",
     NULL},
    {"fine-tuned", LOOPSCENE_TASK("one"), "ymir", NULL},
    {"merged pair", LOOPSCENE_TASK("one"), "ymir", add_partner},
    {"held", SOFT, "fifo", hold_it},
    {"held and rigid", "gpus: 1", "fifo", hold_it},
    {"ending", SOFT, "fifo", cancel_it},
    {"ending and rigid", "gpus: 1", "fifo", cancel_it},
    {"retrying", SOFT "retry: {max: 3, on: [failure]}", "fifo", fail_it},
    {"inbox", "gpus: 1", "fifo", add_inbox},
};

/* --- one forecast -------------------------------------------------------- */

/* Simulated events of an answer; fails beyond the bound. */
static int events_of(const char *json)
{
    const char *at = strstr(json, "\"simulated\": ");
    assert_non_null(at);
    long n = strtol(at + strlen("\"simulated\": "), NULL, 10);
    assert_in_range(n, 0, DRYRUN_FUTURES * DRYRUN_EVENTS_MOST);
    return (int)n;
}

static void ask_eta(struct loopscene *s, struct live_job *job)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    enum firn_status status = dryrun_eta(s->loop, job, &json, &err);
    if (status == FIRN_OK)
        events_of(json.at);
    else /* it is over, held or leaves: said in a sentence */
        assert_true(status == FIRN_EDATA && err.text[0] != '\0');
    buf_release(&json);
}

static void ask_why(struct loopscene *s, struct live_job *job)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(why_job(s->loop, job, &json, &err), FIRN_OK);
    buf_release(&json);
}

static const char *plan(struct loopscene *s, const char *lines)
{
    static char out[4096];
    struct firn_buf text = {0}, json = {0};
    struct firn_error err = {0};
    struct live_ask ask = {0};
    buf_printf(&text, "name: asked\nrun: [/bin/true]\n%s\n", lines);
    if (jobfile_read(&ask, (struct firn_bytes){text.at, text.n}, "test",
                     &err) != FIRN_OK ||
        dryrun_plan(s->loop, &ask, &json, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    snprintf(out, sizeof out, "%s", json.at);
    live_ask_release(&ask);
    buf_release(&text);
    buf_release(&json);
    return out;
}

/* Every forecast there is, of every job there is. */
static void ask_all(struct loopscene *s)
{
    alarm(HANGS_S);
    for (size_t i = 0; i < book_count(s->loop->book); i++) {
        ask_eta(s, book_at(s->loop->book, i));
        ask_why(s, book_at(s->loop->book, i));
    }
    events_of(plan(s, "gpus: 1"));
    if (s->loop->dock.cluster.ngpus > 1)
        events_of(plan(s, "gpus: 2\nduration: 10s"));
    alarm(0);
}

/* --- every kind ---------------------------------------------------------- */

static void forecast_of(const struct kind *kind, bool is_killed)
{
    struct loopscene s;
    const char *gpus =
        strcmp(kind->policy, "ymir") == 0 ? LOOPSCENE_ONE : "1x2:v100@32";
    print_message("%s, policy %s\n", kind->name, kind->policy);
    loopscene_open(&s, gpus, kind->policy, false);
    loopscene_submit(&s, "a", kind->lines);
    if (kind->before != add_partner)
        loopscene_turn(&s);
    loopscene_submit(&s, "later", SOFT "duration: 50s");
    if (kind->before != NULL)
        kind->before(&s);
    loopscene_turn(&s);
    if (is_killed)
        loopscene_kill(&s);
    else
        loopscene_close(&s);
    loopscene_open(&s, gpus, kind->policy, true);
    ask_all(&s); /* before the first turn, too */
    loopscene_turn(&s);
    ask_all(&s);
    loopscene_pass(&s, 100000); /* far beyond every duration */
    ask_all(&s);
    loopscene_close(&s);
    loopscene_remove_state();
}

static void every_kind_of_job_has_a_forecast_after_a_restart(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int is_killed = 0; is_killed < 2; is_killed++)
            forecast_of(&kinds[i], is_killed);
}

static void a_recovered_rigid_job_has_the_duration_of_its_admission(void **u)
{
    (void)u;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1");
    loopscene_submit(&s, "b", "gpus: 1\nduration: 500s");
    loopscene_turn(&s);
    double a_s =
        desk_track(&s.loop->desk, loopscene_job(&s, "a")->id)->duration_s;
    double b_s =
        desk_track(&s.loop->desk, loopscene_job(&s, "b")->id)->duration_s;
    assert_true(a_s == 3600 && b_s == 500);
    loopscene_kill(&s);
    loopscene_open(&s, "1x2:v100@16", "fifo", true);
    const struct track *a =
        desk_track(&s.loop->desk, loopscene_job(&s, "a")->id);
    const struct track *b =
        desk_track(&s.loop->desk, loopscene_job(&s, "b")->id);
    assert_true(a->is_pinned && a->duration_s == a_s);
    assert_true(b->is_pinned && b->duration_s == b_s);
    alarm(HANGS_S);
    struct desk_left left = desk_left(&s.loop->desk, loopscene_job(&s, "b"), b);
    alarm(0);
    assert_true(left.is_known && fabs(left.left_s - 500) < 5);
    loopscene_close(&s);
}

/* Without a duration, progress would come to no work done. */
static void a_recovered_rigid_job_that_reports_has_a_known_end(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1");
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.5, 2, 1024); /* 50 of 100 steps, 2 s each */
    assert_int_equal(dryrun_eta(s.loop, loopscene_job(&s, "a"), &json, &err),
                     FIRN_OK);
    assert_non_null(strstr(json.at, "\"unknown\": null"));
    const char *at = strstr(json.at, "\"finish_s\": ");
    assert_non_null(at);
    assert_true(fabs(strtod(at + strlen("\"finish_s\": "), NULL) - 100) < 5);
    buf_release(&json);
    loopscene_close(&s);
}

static void a_duration_is_stretched_in_a_bounded_number_of_steps(void **unused)
{
    (void)unused;
    static const double odd[] = {0,    -1,  1e-300,   -1e300,    1e300, 1e9,
                                 3600, 0.5, INFINITY, -INFINITY, NAN,   1e-3};
    size_t n = sizeof odd / sizeof *odd;
    alarm(HANGS_S);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            assert_true(desk_stretched(odd[i], odd[k]) > 0);
    alarm(0);
    assert_true(desk_stretched(100, 50) == 100);
    assert_true(desk_stretched(100, 120) == 150);
    assert_true(desk_stretched(0, 0) == 3600);
}

static void a_forecast_beyond_its_bound_says_so(void **unused)
{
    (void)unused;
    struct loopscene s;
    char name[32];
    const char *answer = NULL;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    for (int i = 0; i < 2500; i++) {
        snprintf(name, sizeof name, "j%d", i);
        loopscene_submit(&s, name, SOFT "duration: 50s");
    }
    loopscene_turn(&s);
    alarm(HANGS_S);
    answer = plan(&s, "gpus: 1\nduration: 10s");
    alarm(0);
    assert_non_null(strstr(answer, "\"start_s\": null"));
    assert_non_null(strstr(answer, "not known when it starts: the forecast "
                                   "stopped at its limit of"));
    events_of(answer);
    loopscene_close(&s);
}

/* --- random scenes ------------------------------------------------------- */

static const char *const policies[] = {
    "fifo",    "sjf",      "srtf",   "tiresias",  "themis",
    "optimus", "pollux",   "sia",    "ymir",      "icefrog",
    "lucid",   "sjf-bsbf", "frenzy", "easyscale", "firn"};
static const char *const gpus_of[] = {"1x2:v100@32", "2x4:v100@32",
                                      "1x4:v100@32,1x4:a100@80"};
static const char *const lines_of[] = {
    "gpus: 1",
    "gpus: 2\nduration: 5m",
    "gpus: 1\nrestart: allowed",
    "gpus: 1..4\nelastic: {consistency: D2, scan: insist}\nduration: 1h",
    "gpus: 1..2\nelastic: {threads: 2}",
    "gpus: 1\nmemory: 4\nshare: allowed\ncheckpoint: {grace: 10}",
    "gpus: 1\nfreeze: {max: 40%}\ncheckpoint: {grace: 10}",
    "batch: 8\nmodel: {name: gpt2, seq: 512}",
    LOOPSCENE_TASK("one"),
    LOOPSCENE_TASK("two"),
    SOFT "retry: {max: 3, on: [failure, lost]}",
    SOFT "duration: 1s",
    "gpus: 1\nduration: 0.001s",
};

#define PICK(rng, from) (from)[rng_below(rng, sizeof(from) / sizeof *(from))]

/* Something that happens to a job of the scene. */
static void happen(struct loopscene *s, struct rng *rng, struct live_job *job)
{
    const struct track *track = desk_track(&s->loop->desk, job->id);
    if (track == NULL || live_state_is_over(job->state))
        return;
    double done = fmax(job->last.progress, 0);
    bool runs = loopscene_mate(s, job->ask.name) != FIRN_NO_JOB;
    switch (rng_below(rng, 7)) {
    case 0:
        loopscene_hold(s, job, rng_below(rng, 2));
        break;
    case 1:
        loopscene_cancel(s, job);
        break;
    case 2:
        if (runs && !(partner_lead(s->loop->book, job) != NULL))
            loopscene_fail(s, job->ask.name, FIRN_END_FAILED, 1);
        break;
    case 3:
    case 4:
        if (runs && job->state == LIVE_RUNNING)
            loopscene_report(s, job->ask.name,
                             done + (1 - done) * rng_unit(rng),
                             rng_unit(rng) * 10, 1024);
        break;
    default:
        break;
    }
}

static void random_scene(uint64_t seed)
{
    struct loopscene s;
    struct rng rng;
    char name[32];
    rng_seed(&rng, seed);
    const char *policy = PICK(&rng, policies), *gpus = PICK(&rng, gpus_of);
    int njobs = 1 + (int)rng_below(&rng, 12);
    print_message("seed %llu: policy %s, GPUs %s, %d jobs\n",
                  (unsigned long long)seed, policy, gpus, njobs);
    loopscene_open(&s, gpus, policy, false);
    for (int i = 0; i < njobs; i++) {
        snprintf(name, sizeof name, "j%d", i);
        loopscene_submit(&s, name, PICK(&rng, lines_of));
        if (rng_below(&rng, 2))
            loopscene_turn(&s);
        happen(&s, &rng,
               book_at(s.loop->book, rng_below(&rng, (uint64_t)i + 1)));
        if (rng_below(&rng, 4) == 0)
            loopscene_pass(&s, 1e5 * rng_unit(&rng) * rng_unit(&rng));
    }
    for (int restarts = 0; restarts < 2; restarts++) {
        if (rng_below(&rng, 2))
            loopscene_kill(&s);
        else
            loopscene_close(&s);
        loopscene_open(&s, gpus, policy, true);
        ask_all(&s);
        if (rng_below(&rng, 2))
            loopscene_pass(&s, 1e4 * rng_unit(&rng));
        else
            loopscene_turn(&s);
        ask_all(&s);
    }
    loopscene_close(&s);
    loopscene_remove_state();
}

static void forecasts_of_random_recovered_scenes_end(void **unused)
{
    (void)unused;
    const char *only = getenv("FIRN_SEED");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    int n = only != NULL                  ? 1
            : getenv("FIRN_SOAK") != NULL ? trials(60)
                                          : trials(20);
    for (int i = 0; i < n; i++)
        random_scene(first + (uint64_t)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_duration_is_stretched_in_a_bounded_number_of_steps),
        CASE(a_recovered_rigid_job_has_the_duration_of_its_admission),
        CASE(a_recovered_rigid_job_that_reports_has_a_known_end),
        CASE(every_kind_of_job_has_a_forecast_after_a_restart),
        CASE(a_forecast_beyond_its_bound_says_so),
        CASE(forecasts_of_random_recovered_scenes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
