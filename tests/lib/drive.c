/* drive.c - a loop around engine and round, for toys.
 *
 * All events of an instant are taken in before its decision, as sim/sim.c
 * does; there are no metrics and no files.
 */
#include "lib/drive.h"
#include "base/buf.h"
#include "core/round.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static void on_end(void *arg, const struct firn_job *job, const char *how,
                   double now_s)
{
    struct drive *drive = arg;
    buf_printf(&drive->text, "%s ", job->spec.name);
    if (strcmp(how, "done") != 0)
        buf_printf(&drive->text, "%s ", how);
    buf_double(&drive->text, now_s);
    buf_putc(&drive->text, '\n');
    drive->end_s = now_s;
}

static enum firn_status loop(struct simengine *engine, struct round *round,
                             struct firn_error *err)
{
    double due_s = INFINITY;
    const struct state *state = round_state(round);
    struct firn_event event;
    for (;;) {
        double until_s = fmin(due_s, round_wake_s(round));
        if (simengine_def.next(engine, until_s, &event, err)) {
            FIRN_TRY(round_event(round, &event, err));
            if (round_is_due(round) && isinf(due_s))
                due_s = engine->cadence.decide_s(&engine->cadence, event.at_s);
        } else if (isinf(until_s)) {
            return state->nwaiting > 0
                       ? firn_fail(err, FIRN_ESTALLED, "the toy stalls")
                       : FIRN_OK;
        } else {
            round_tick(round, until_s);
            due_s = INFINITY;
            FIRN_TRY(round_decide(round, until_s, err));
        }
        if (state->nwaiting + state->nrunning == 0 && simengine_drained(engine))
            return FIRN_OK;
    }
}

enum firn_status drive_try(struct play *play,
                           const struct firn_policy_def *policy,
                           struct drive *out)
{
    const struct firn_sim_options *options = &play->options;
    struct simengine engine = {
        .options = options,
        .truth = truth_from_trace(options->cluster, options->scaling,
                                  options->share_slowdown),
        .cadence = cadence_every(options->interval_s, options->quantum_s,
                                 options->charges_first_start),
    };
    struct round *round = NULL;
    *out = (struct drive){.end_s = NAN};
    buf_puts(&out->text, "");
    struct round_config config = {.cluster = options->cluster,
                                  .policy = policy,
                                  .engine = &simengine_def,
                                  .engine_state = &engine,
                                  .watch = {.arg = out, .end = on_end}};
    play->err = (struct firn_error){0};
    assert_int_equal(simengine_def.open(&engine, &play->err), FIRN_OK);
    assert_int_equal(round_new(&round, &config, &play->err), FIRN_OK);
    enum firn_status status = loop(&engine, round, &play->err);
    out->spent = engine.spent;
    out->steps = round_steps(round);
    round_free(round);
    simengine_def.close(&engine);
    return status;
}

struct drive drive_run(struct play *play, const struct firn_policy_def *policy,
                       const char *want)
{
    struct drive out;
    if (drive_try(play, policy, &out) != FIRN_OK)
        fail_msg("%s: %s", policy->name, play->err.text);
    assert_string_equal(out.text.at, want);
    buf_release(&out.text);
    return out;
}
