/* storescene.c - a store in the case's folder, and jobs of which every field
 * has a value of its own.
 */
#include "tests/daemon/storescene.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "lib/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct firn_error oops;
char told[1024];

struct store *store_scene(void)
{
    struct store *store = NULL;
    if (store_open(&store, folder_path(), told, sizeof told, &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
    return store;
}

static char **list_of(const char *a, const char *b)
{
    char **list = mem_new(3, sizeof *list);
    list[0] = mem_strdup(a);
    list[1] = mem_strdup(b);
    return list;
}

/* Every field has a value of its own. */
struct live_job *job_scene(firn_job_id id)
{
    struct live_job *job = mem_new(1, sizeof *job);
    char **texts[] = {&job->ask.name,    &job->ask.queue,
                      &job->ask.user,    &job->ask.app,
                      &job->ask.workdir, &job->ask.types,
                      &job->ask.model,   &job->ask.freeze,
                      &job->ask.base,    &job->ask.consistency,
                      &job->ask.dataset, &job->ask.objective,
                      &job->text,        &job->ask.ckpt_dir,
                      &job->request,     &job->ask.inbox};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];
        snprintf(text, sizeof text, "t%zu-%d '); DROP TABLE jobs;--\n\xc3\xa9",
                 i, id);
        *texts[i] = mem_strdup(text);
    }
    job->id = id;
    job->ask.argv = list_of("python", "");
    job->ask.env = list_of("A=1", "B=x y");
    int *ints[] = {
        &job->ask.priority,    &job->ask.gpus_min, &job->ask.gpus_max,
        &job->ask.seq,         &job->ask.batch,    &job->ask.threads,
        &job->ask.retries_max, &job->nretries,     &job->exit_status,
        &job->how.passes,      &job->how.tensor,   &job->how.parallel,
        &job->how.stages,      &job->how.after,    &job->how.merged_with};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        *ints[i] = 10 + (int)i;
    double *reals[] = {
        &job->ask.freeze_max,    &job->ask.grace_s, &job->ask.ckpt_every_s,
        &job->ask.duration_s,    &job->ask.mem_gib, &job->ask.deadline_s,
        &job->ask.target_metric, &job->submitted_s, &job->started_s,
        &job->ended_s,           &job->reported_s};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        *reals[i] = 0.1 + (double)i;
    job->ask.target_epochs = 1ull << 40;
    job->ask.target_iterations = 7;
    job->epoch = 5;
    job->reported_epoch = 4;
    job->state = LIVE_RESIZING;
    job->reason = LIVE_BECAUSE_FRAGMENTED;
    str_copy(job->token, sizeof job->token, "feed");
    str_copy(job->why, sizeof job->why, "because");
    job->held = mem_strdup("n0[0-3]");
    str_copy(job->gpu_type, sizeof job->gpu_type, "v100");
    job->last = firn_trainer_report_unknown();
    job->last.progress = 0.25;
    job->variance = mem_new(LIVE_LAYERS, sizeof *job->variance);
    job->variance[0] = 1.0 / 3;
    job->last.variance = job->variance;
    job->last.nlayers = 1;
    job->orders = firn_orders_none();
    job->orders.nfrozen = 3;
    return job;
}

/* All flags by their bits. */
void job_flags(struct live_job *job, unsigned bits)
{
    bool *flags[] = {&job->ask.may_share,     &job->ask.may_merge,
                     &job->ask.is_elastic,    &job->ask.can_checkpoint,
                     &job->ask.may_restart,   &job->ask.retry_on_failure,
                     &job->ask.retry_on_lost, &job->is_held,
                     &job->is_ending};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *flags[i] = (bits >> i & 1) != 0;
}

static void show_ask(struct firn_buf *out, const struct live_ask *a)
{
    buf_printf(out, "%s|%s|%s|%s|%d|", a->name, a->queue, a->user, a->app,
               a->priority);
    for (size_t i = 0; a->argv[i] != NULL; i++)
        buf_printf(out, "argv %s|", a->argv[i]);
    for (size_t i = 0; a->env[i] != NULL; i++)
        buf_printf(out, "env %s|", a->env[i]);
    buf_printf(out, "%s|%d..%d|%s|%d|%s|%d|%d|%s|%.17g|%s|%d|", a->workdir,
               a->gpus_min, a->gpus_max, a->types, a->may_share, a->model,
               a->seq, a->batch, a->freeze, a->freeze_max, a->consistency,
               a->threads);
    buf_printf(out, "%s|%s|%s|%d|%s|%.17g|%.17g|%d%d%d|%d|%d%d|", a->base,
               a->dataset, a->objective, a->may_merge, a->ckpt_dir, a->grace_s,
               a->ckpt_every_s, a->is_elastic, a->can_checkpoint,
               a->may_restart, a->retries_max, a->retry_on_failure,
               a->retry_on_lost);
    buf_printf(out, "%.17g|%.17g|%.17g|%llu|%llu|%.17g|%s|\n", a->duration_s,
               a->mem_gib, a->deadline_s, (unsigned long long)a->target_epochs,
               (unsigned long long)a->target_iterations, a->target_metric,
               a->inbox);
}

struct firn_buf job_text(const struct live_job *job)
{
    struct firn_buf out = {0};
    buf_printf(&out, "%d ", job->id);
    show_ask(&out, &job->ask);
    buf_printf(&out, "%s|%s|%s|%.17g|%.17g|%.17g|%d|%d|%s|%d%d|", job->text,
               job->request, job->token, job->submitted_s, job->started_s,
               job->ended_s, (int)job->state, (int)job->reason, job->why,
               job->is_held, job->is_ending);
    buf_printf(&out, "%lld|%d|%d|%s|%.17g|%lld|%.17g|%zu|%.17g|%d\n",
               (long long)job->epoch, job->nretries, job->exit_status,
               job->held, job->reported_s, (long long)job->reported_epoch,
               job->last.progress, job->last.nlayers,
               job->last.nlayers > 0 ? job->last.variance[0] : -1,
               job->orders.nfrozen);
    buf_printf(&out, "%d %d %d %d %d %d %s\n", job->how.passes, job->how.tensor,
               job->how.parallel, job->how.stages, job->how.merged_with,
               job->how.after, job->gpu_type);
    return out;
}

bool job_same(const struct live_job *a, const struct live_job *b)
{
    struct firn_buf x = job_text(a), y = job_text(b);
    bool is_same = strcmp(x.at, y.at) == 0;
    if (!is_same)
        print_message("%s%s", x.at, y.at);
    buf_release(&x);
    buf_release(&y);
    return is_same;
}

void scene_add(struct store *store, struct live_job *job)
{
    if (store_add_job(store, job, &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
}

void scene_commit(struct store *store)
{
    if (store_commit(store, &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
}

static bool count_one(void *arg, struct live_job *job)
{
    ++*(size_t *)arg;
    live_job_free(job);
    return true;
}

size_t scene_count(struct store *store, bool with_over, size_t *nbad)
{
    size_t n = 0, bad = 0;
    assert_int_equal(
        store_each_job(store, with_over, count_one, &n, &bad, &oops), FIRN_OK);
    if (nbad != NULL)
        *nbad = bad;
    return n;
}

int scene_wait(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- with a book ------------------------------------------------------------
 */

struct liveset liveset_open(void)
{
    struct liveset d = {store_scene(), NULL};
    if (book_open(&d.book, d.store, &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
    return d;
}

void liveset_close(struct liveset *d)
{
    book_close(d->book);
    store_close(d->store);
}

/* Commits, and starts again from the disk. */
void liveset_reopen(struct liveset *d)
{
    scene_commit(d->store);
    liveset_close(d);
    *d = liveset_open();
}

struct live_job *liveset_submit(struct liveset *d, const char *name,
                                const char *user, const char *request,
                                bool *is_new)
{
    struct live_ask ask = {.name = mem_strdup(name),
                           .user = mem_strdup(user),
                           .gpus_min = 1,
                           .gpus_max = 8,
                           .is_elastic = true};
    struct live_job *job = NULL;
    bool ignored = false;
    if (book_submit(d->book, &ask, "run: x\n", request, 100, &job,
                    is_new != NULL ? is_new : &ignored, &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
    assert_null(ask.name); /* given away */
    return job;
}

struct live_job *liveset_add(struct liveset *d, const char *name)
{
    return liveset_submit(d, name, "ann", "", NULL);
}
