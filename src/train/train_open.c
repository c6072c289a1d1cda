/* train_open.c - opens and releases a training session.
 *
 * The order matters: the group first, because it knows which threads are here;
 * then their contexts, the freezer, the reporter. Process 0 decides whether
 * variances are measured (it alone may know of a scheduler), because measuring
 * is collective.
 */
#include "train/joinwork.h"
#include "train/trainwork.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    if (copy != NULL)
        memcpy(copy, text, n);
    return copy;
}

static enum firn_status check_config(const struct firn_train_config *c,
                                     struct firn_error *err)
{
    FIRN_TRY(firn_train_check_layers(c, err));
    if (c->sampler != NULL)
        FIRN_TRY(firn_sampler_check(c->sampler, err));
    else if (c->steps_per_epoch == 0)
        return firn_fail(err, FIRN_EINVAL, "an epoch needs at least one step");
    if (!(c->peer_timeout_s >= 0 && c->peer_timeout_s <= 1e9))
        return firn_fail(err, FIRN_EINVAL,
                         "a peer time-out of %g s, not 0 to 1e9",
                         c->peer_timeout_s);
    if (c->freeze.nlayers != 0 && c->freeze.nlayers != c->nlayers)
        return firn_fail(err, FIRN_EINVAL,
                         "%zu layers, but the freezer has %zu", c->nlayers,
                         c->freeze.nlayers);
    return FIRN_OK;
}

static bool allocate(struct firn_train *t, const struct firn_train_config *c,
                     const struct train_env *env)
{
    size_t l = c->nlayers;
    t->pulse_bytes =
        sizeof(struct train_pulse) + (size_t)t->nthreads * sizeof(double);
    t->name = copy_text(env->name);
    t->group_name = copy_text(env->group_name);
    t->dir = env->dir != NULL ? copy_text(env->dir) : NULL;
    t->layer_start = malloc((l + 1) * sizeof *t->layer_start);
    t->used = calloc(1, sizeof *t->used);
    t->pulse = calloc(1, t->pulse_bytes);
    t->pulses = calloc((size_t)t->nprocs, t->pulse_bytes);
    t->squares = calloc(l, sizeof *t->squares);
    t->meansq = calloc(l, sizeof *t->meansq);
    t->variance = calloc(l, sizeof *t->variance);
    if (t->name == NULL || t->group_name == NULL ||
        (env->dir != NULL && t->dir == NULL) || t->used == NULL ||
        t->layer_start == NULL || t->pulse == NULL || t->pulses == NULL ||
        t->squares == NULL || t->meansq == NULL || t->variance == NULL)
        return false;
    return firn_train_place_layers(t, c);
}

static void fill_in(struct firn_train *t, const struct firn_train_config *c,
                    const struct train_env *env)
{
    t->rank = env->rank;
    t->nprocs = env->nprocs;
    t->nthreads = env->nthreads;
    t->passes_asked = env->passes;
    t->nlayers = c->nlayers;
    t->nepochs = c->nepochs;
    t->steps_per_epoch = c->steps_per_epoch;
    t->every_steps = c->every_steps;
    t->every_s = env->every_s;
    t->anew = env->anew;
    t->target = env->target;
    t->sum = env->sum;
    t->saved_s = firn_train_now_s();
    t->keep = c->keep;
    t->report_every = c->report_every > 0 ? c->report_every : 10;
    t->word = (struct train_pulse){.nfrozen = -1, .passes = -1, .batch = -1};
    t->batch_rule = env->batch_rule;
    t->batch_asked = env->batch;
    t->frozen_asked = env->rule == FIRN_FREEZER_OFF ? -1 : env->frozen;
    if (c->sampler != NULL) {
        t->sampler = *c->sampler;
        t->batch0 = t->sampler.batch;
        t->steps_per_epoch = firn_sampler_batches(&t->sampler);
    }
    t->metric = -1;
    t->loss = -1;
    t->can = -1;
}

static enum firn_status open_group(struct firn_train *t,
                                   const struct firn_train_config *c,
                                   const struct train_env *env,
                                   struct firn_error *err)
{
    bool is_one_host = env->local_nprocs == env->nprocs;
    if (c->as == NULL)
        FIRN_TRY(firn_join_open(&t->join, err));
    if (t->join != NULL && !is_one_host && !firn_join_is_far(t->join)) {
        firn_join_close(t->join);
        t->join = NULL;
    }
    t->joins = firn_join_is_new(t->join);
    t->is_chain = c->chain;
    t->timeout_s = env->timeout_s;
    struct firn_group_config group = {.name = env->group_name,
                                      .rank = env->rank,
                                      .nprocs = env->nprocs,
                                      .local_rank = env->local_rank,
                                      .local_nprocs = env->local_nprocs,
                                      .nthreads = env->nthreads,
                                      .owner = env->owner,
                                      .nelements = t->nelements,
                                      .chain = c->chain,
                                      .sum = env->sum,
                                      .timeout_s = env->timeout_s,
                                      .address = env->address,
                                      .port = env->port,
                                      .key = env->key};
    FIRN_TRY(t->joins ? firn_train_plan_group(t, &group, err)
                      : firn_group_open(&t->group, &group, err));
    t->nmine = firn_group_threads(t->group, &t->mine);
    FIRN_TRY(firn_threads_new(&t->threads, t->mine, t->nmine, err));
    return firn_threads_part(t->threads, TRAIN_SQUARES, t->squares,
                             t->nlayers * sizeof *t->squares, err);
}

static enum firn_status open_freezer(struct firn_train *t,
                                     const struct firn_train_config *c,
                                     const struct train_env *env,
                                     struct firn_error *err)
{
    struct firn_freezer_config f = c->freeze;
    uint64_t *nelements = malloc(t->nlayers * sizeof *nelements);
    if (nelements == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory");
    for (size_t l = 0; l < t->nlayers; l++)
        nelements[l] = t->layer_start[l + 1] - t->layer_start[l];
    if (f.nlayers == 0 && f.rule == FIRN_FREEZER_OFF) {
        f.rule = env->rule;
        f.warmup_epochs = FIRN_FREEZER_WARMUP;
    }
    if (f.freezeout.first <= 0) /* what its authors advise */
        f.freezeout = (struct firn_freezeout){0.8, true, true};
    if (env->frozen_max > 0 &&
        !(f.frozen_max > 0 && f.frozen_max < env->frozen_max))
        f.frozen_max = env->frozen_max; /* both limits hold */
    f.nlayers = t->nlayers;
    if (f.nelements == NULL)
        f.nelements = nelements;
    enum firn_status status = firn_freezer_new(&t->freezer, &f, err);
    free(nelements);
    FIRN_TRY(status);
    t->replays = c->nreplay > 0;
    if (t->replays)
        FIRN_TRY(firn_freezer_replay(t->freezer, c->replay, c->nreplay, err));
    t->decides = f.rule != FIRN_FREEZER_OFF || t->replays;
    t->measures = f.rule == FIRN_FREEZER_PENALTY || f.rule == FIRN_FREEZER_USER;
    return FIRN_OK;
}

/* Makes the folder and its parents, and checks that it can be written to: a run
 * of days must not find that out at its end. */
static enum firn_status make_folder(char *path, struct firn_error *err)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        int why = errno;
        if (failed)
            firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(why));
        *at = '/';
        if (failed)
            return FIRN_EIO;
    }
    if ((mkdir(path, 0777) != 0 && errno != EEXIST) ||
        access(path, W_OK | X_OK) != 0)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    return FIRN_OK;
}

static enum firn_status open_folder(struct firn_train *t,
                                    struct firn_error *err)
{
    int64_t failed = 0;
    if (t->joins)
        return FIRN_OK;
    if (t->rank == 0 && t->dir != NULL && t->dir[0] != '\0')
        failed = make_folder(t->dir, err) != FIRN_OK;
    int64_t any = failed;
    FIRN_TRY(firn_group_max(t->group, &any, err));
    if (any != 0 && failed == 0)
        firn_fail(err, FIRN_EIO, "%s: process 0 cannot write there",
                  t->dir != NULL ? t->dir : "checkpoints");
    return any != 0 ? FIRN_EIO : FIRN_OK;
}

enum firn_status firn_train_open_reporter(struct firn_train *t,
                                          const struct firn_mate *as,
                                          struct firn_error *err)
{
    struct firn_reporter_config r = {
        .url = t->rank == 0 ? NULL : "", .attempt = -1, .catch_signal = true};
    if (as != NULL) {
        r.job = as->job;
        r.token = as->token;
        r.attempt = as->attempt;
    }
    return firn_reporter_open(&t->reporter, &r, err);
}

/* Process 0 alone may know of a scheduler, which wants variances. */
static enum firn_status open_measures(struct firn_train *t,
                                      struct firn_error *err)
{
    const char *url = getenv("FIRN_URL");
    if (t->joins) /* it learns that with the rest */
        return FIRN_OK;
    int64_t measures = t->measures || (t->rank == 0 && url && url[0] != '\0');
    FIRN_TRY(firn_group_max(t->group, &measures, err));
    t->measures = measures != 0;
    if (t->measures && t->nthreads == 1) {
        t->before = calloc(t->nelements + 1, sizeof *t->before);
        if (t->before == NULL)
            return firn_fail(err, FIRN_ENOMEM, "no memory");
    }
    return FIRN_OK;
}

void firn_train_release(struct firn_train *t)
{
    firn_reporter_close(t->reporter, 10);
    firn_freezer_free(t->freezer);
    firn_threads_free(t->threads);
    firn_group_close(t->group);
    firn_join_close(t->join);
    for (size_t i = 0; i < t->nshared; i++)
        free(t->shared[i].name);
    free(t->shared);
    free(t->name);
    free(t->group_name);
    free(t->dir);
    free(t->layer_start);
    free(t->range);
    free(t->packed);
    free(t->used);
    free(t->pulse);
    free(t->pulses);
    free(t->squares);
    free(t->meansq);
    free(t->variance);
    free(t->before);
    free(t);
}

enum firn_status firn_train_open(struct firn_train **out,
                                 const struct firn_train_config *c,
                                 struct firn_error *err)
{
    struct train_env env;
    (void)firn_ahead_pass(); /* a program that did not wait waits here */
    FIRN_TRY(check_config(c, err));
    FIRN_TRY(firn_train_env(&env, c, err));
    struct firn_train *t = calloc(1, sizeof *t);
    enum firn_status status = FIRN_OK;
    if (t == NULL) {
        status = firn_fail(err, FIRN_ENOMEM, "no memory");
    } else {
        fill_in(t, c, &env);
        status = allocate(t, c, &env)
                     ? FIRN_OK
                     : firn_fail(err, FIRN_ENOMEM, "no memory");
        if (status == FIRN_OK)
            status = open_group(t, c, &env, err);
        if (status == FIRN_OK)
            status = open_folder(t, err);
        if (status == FIRN_OK)
            status = open_freezer(t, c, &env, err);
        if (status == FIRN_OK)
            status = firn_train_open_reporter(t, c->as, err);
        if (status == FIRN_OK)
            status = open_measures(t, err);
        if (status == FIRN_OK)
            *out = t;
        else
            firn_train_release(t);
    }
    free(env.owner);
    return status;
}

enum firn_status firn_train_shared(struct firn_train *train, const char *name,
                                   enum firn_ckpt_type type, void *data,
                                   size_t nbytes, struct firn_error *err)
{
    struct firn_train *t = train;
    if (name[0] == '\0' || strncmp(name, "train/", 6) == 0 ||
        strncmp(name, "thread/", 7) == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "no shared tensor can be called '%s'", name);
    size_t one = firn_ckpt_type_bytes(type);
    if (one == 0 || nbytes % one != 0)
        return firn_fail(err, FIRN_EINVAL, "%s: %zu bytes of type %s", name,
                         nbytes, firn_ckpt_type_name(type));
    for (size_t i = 0; i < t->nshared; i++)
        if (strcmp(t->shared[i].name, name) == 0)
            return firn_fail(err, FIRN_EINVAL, "%s was added twice", name);
    struct train_shared *more =
        realloc(t->shared, (t->nshared + 1) * sizeof *more);
    char *copy = copy_text(name);
    if (more != NULL)
        t->shared = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        return firn_fail(err, FIRN_ENOMEM, "no memory for %s", name);
    }
    t->shared[t->nshared++] = (struct train_shared){copy, type, data, nbytes};
    return FIRN_OK;
}

/* --- small questions of all files ----------------------------------------- */

double firn_train_now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void firn_train_say(struct firn_train *t, const char *fmt, ...)
{
    size_t n = strlen(t->messages);
    va_list args;
    va_start(args, fmt);
    if (n > 0 && n + 2 < sizeof t->messages) {
        memcpy(t->messages + n, "\n", 2);
        n++;
    }
    vsnprintf(t->messages + n, sizeof t->messages - n, fmt, args);
    va_end(args);
}

uint64_t firn_train_epoch(const struct firn_train *train)
{
    uint64_t since = train->ordinary - (train->due > 0) - train->base_ordinary;
    return train->base_epoch + since / train->steps_per_epoch;
}

void firn_train_uses(const struct firn_train *t, unsigned can)
{
    *t->used |= can;
}

size_t firn_train_first(const struct firn_train *t)
{
    return t->layer_start[firn_freezer_frozen(t->freezer)];
}

unsigned firn_train_npasses(const struct firn_train *t)
{
    unsigned n = firn_freezer_passes(t->freezer);
    return n > 0 ? n : 1;
}
