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

/* A value of its own for each field of core/jobfields.def. */
static void fill_ask(struct live_ask *ask, int id)
{
    for (int i = 0; i < JOB_NFIELDS; i++) {
        void *member = live_ask_member(ask, (enum job_field_id)i);
        char text[64];
        switch (job_field_storage(&job_fields[i])) {
        case JOB_AS_TEXT:
            snprintf(text, sizeof text,
                     "t%d-%d '); DROP TABLE jobs;--\n\xc3\xa9", i, id);
            *(char **)member = mem_strdup(text);
            break;
        case JOB_AS_LIST:
            snprintf(text, sizeof text, "A%d=x y", i);
            *(char ***)member = list_of(text, "");
            break;
        case JOB_AS_INT:
            *(int *)member =
                job_fields[i].most > 0 && 10 + i > job_fields[i].most
                    ? (int)job_fields[i].most
                    : 10 + i;
            break;
        case JOB_AS_COUNT:
            *(uint64_t *)member = (1ull << 40) + (unsigned)i;
            break;
        case JOB_AS_BOOL:
            *(bool *)member = false;
            break;
        case JOB_AS_REAL:
            *(double *)member = 0.1 + i;
            break;
        }
    }
}

/* Every field has a value of its own. */
struct live_job *job_scene(firn_job_id id)
{
    struct live_job *job = mem_new(1, sizeof *job);
    job->id = id;
    fill_ask(&job->ask, id);
    job->text = mem_strdup("run: x\n");
    job->request = mem_strdup("r'); DROP TABLE jobs;--");
    int *ints[] = {&job->nretries,   &job->exit_status,    &job->how.passes,
                   &job->how.tensor, &job->how.parallel,   &job->how.stages,
                   &job->how.after,  &job->how.merged_with};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        *ints[i] = 10 + (int)i;
    double *reals[] = {&job->submitted_s, &job->started_s, &job->ended_s,
                       &job->reported_s};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        *reals[i] = 0.1 + (double)i;
    job->attempt = 5;
    job->reported_attempt = 4;
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

unsigned job_set_flags(struct live_job *job, uint64_t bits)
{
    unsigned n = 0;
    for (int i = 0; i < JOB_NFIELDS; i++)
        if (job_field_storage(&job_fields[i]) == JOB_AS_BOOL)
            *(bool *)live_ask_member(&job->ask, (enum job_field_id)i) =
                (bits >> n++ & 1) != 0;
    job->is_held = (bits >> n++ & 1) != 0;
    job->is_ending = (bits >> n++ & 1) != 0;
    return n;
}

void ask_text(struct firn_buf *out, const struct live_ask *ask)
{
    for (int i = 0; i < JOB_NFIELDS; i++) {
        const void *member = live_ask_member(ask, (enum job_field_id)i);
        buf_printf(out, "%s ", job_fields[i].name);
        switch (job_field_storage(&job_fields[i])) {
        case JOB_AS_TEXT:
            buf_printf(out, "'%s'", *(char *const *)member);
            break;
        case JOB_AS_LIST:
            for (char **at = *(char **const *)member; *at != NULL; at++)
                buf_printf(out, "[%s]", *at);
            break;
        case JOB_AS_INT:
            buf_printf(out, "%d", *(const int *)member);
            break;
        case JOB_AS_COUNT:
            buf_printf(out, "%llu",
                       (unsigned long long)*(const uint64_t *)member);
            break;
        case JOB_AS_BOOL:
            buf_printf(out, "%d", *(const bool *)member);
            break;
        case JOB_AS_REAL:
            buf_printf(out, "%.17g", *(const double *)member);
            break;
        }
        buf_putc(out, '\n');
    }
}

struct firn_buf job_as_text(const struct live_job *job)
{
    struct firn_buf out = {0};
    buf_printf(&out, "%d ", job->id);
    ask_text(&out, &job->ask);
    buf_printf(&out, "%s|%s|%s|%.17g|%.17g|%.17g|%d|%d|%s|%d%d|", job->text,
               job->request, job->token, job->submitted_s, job->started_s,
               job->ended_s, (int)job->state, (int)job->reason, job->why,
               job->is_held, job->is_ending);
    buf_printf(&out, "%lld|%d|%d|%s|%.17g|%lld|%.17g|%zu|%.17g|%d\n",
               (long long)job->attempt, job->nretries, job->exit_status,
               job->held, job->reported_s, (long long)job->reported_attempt,
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
    struct firn_buf x = job_as_text(a), y = job_as_text(b);
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

/* --- with a book --------------------------------------------------------- */

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
