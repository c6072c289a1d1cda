/* mate.c - co-training: the partner's variables, and which job's step is next.
 *
 * Two sessions over the same processes take turns. The turn follows from the
 * steps that each has done, so every process and every resumed run finds the
 * same order without communication. An epoch of the pair has as many steps as
 * both jobs have in an epoch; the draw anneals from proportional to nearly even
 * over the longer of the two jobs.
 *
 * Invariants
 *   1. What a pair does follows from the two sessions' steps and states, which
 *      are equal in all processes.
 *   2. A session's checkpoint is written when no step of either is under way,
 *      with the steps of both; the other's follows before the next step.
 *   3. After a resume, the steps of both are those that each one's checkpoint
 *      names, or one of them is done, or the log says that they differ.
 *
 * Times: the step time that a session reports includes the partner's steps in
 * between; the parts of a step are its own.
 */
#include "base/str.h"
#include "train/trainwork.h"
#include <errno.h>
#include <firn/mate.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct firn_pair {
    struct firn_train *train[2]; /* the second may be NULL */
    struct firn_task_mix mix;
    uint64_t nsamples[2];    /* of the mix: steps of an epoch */
    struct firn_train *last; /* the session of the last step, or NULL */
};

/* --- the environment ----------------------------------------------------- */

static const char *word_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? text : "";
}

static int64_t number_of(const char *name, int64_t most)
{
    const char *text = word_of(name);
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return errno == 0 && end > text && *end == '\0' && n >= 0 && n <= most ? n
                                                                           : 0;
}

static double share_of(const char *name)
{
    double share = 0;
    bool is_share = str_double(word_of(name), &share) && share > 0;
    return is_share && share <= 1 ? share : 0;
}

static bool read_words(struct firn_mate *mate, const char *text)
{
    size_t n = 1, size = strlen(text) + 1;
    for (const char *at = text; *at != '\0'; at++)
        n += *at == '\x1f';
    mate->all = malloc(size);
    mate->argv = calloc(n + 1, sizeof *mate->argv);
    if (mate->all == NULL || mate->argv == NULL)
        return false;
    memcpy(mate->all, text, size);
    char *at = mate->all;
    while (at != NULL) {
        mate->argv[mate->argc++] = at;
        at = strchr(at, '\x1f');
        if (at != NULL)
            *at++ = '\0';
    }
    return true;
}

static _Atomic bool is_asked; /* firn_mate_find() was called */

bool firn_mate_is_asked(void)
{
    return is_asked;
}

bool firn_mate_find(struct firn_mate *mate)
{
    is_asked = true;
    struct firn_mate found = {.job = word_of("FIRN_MATE_JOB"),
                              .token = word_of("FIRN_MATE_TOKEN"),
                              .dir = word_of("FIRN_MATE_DIR"),
                              .data = word_of("FIRN_MATE_DATA")};
    const char *words = word_of("FIRN_MATE_ARGV");
    if (found.job[0] == '\0')
        return false;
    found.attempt = number_of(getenv("FIRN_MATE_ATTEMPT") != NULL
                                  ? "FIRN_MATE_ATTEMPT"
                                  : "FIRN_MATE_EPOCH", /* older schedulers' */
                              INT64_MAX);
    found.nthreads = (int)number_of("FIRN_MATE_THREADS", 1 << 20);
    found.frozen_max = share_of("FIRN_MATE_FREEZE_MAX");
    if (words[0] != '\0' && !read_words(&found, words)) {
        firn_mate_free(&found);
        return false;
    }
    *mate = found;
    return true;
}

void firn_mate_free(struct firn_mate *mate)
{
    free(mate->argv);
    free(mate->all);
    *mate = (struct firn_mate){0};
}

/* --- a pair -------------------------------------------------------------- */

enum firn_status firn_pair_open(struct firn_pair **out,
                                struct firn_train *const train[2],
                                uint64_t seed, struct firn_error *err)
{
    struct firn_pair *p = calloc(1, sizeof *p);
    if (p == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory");
    for (int i = 0; i < 2 && train[i] != NULL; i++) {
        p->train[i] = train[i];
        p->nsamples[i] = train[i]->steps_per_epoch;
        train[i]->is_paired = train[1] != NULL;
        train[i]->reported_s = firn_train_now_s();
        p->mix.ntasks = (size_t)i + 1;
        if (p->mix.nepochs < train[i]->nepochs)
            p->mix.nepochs = train[i]->nepochs;
    }
    p->mix.mode = FIRN_TASK_SPATIAL;
    p->mix.nsamples = p->nsamples;
    p->mix.seed = seed;
    *out = p;
    return FIRN_OK;
}

bool firn_pair_runs(const struct firn_pair *pair, int which)
{
    const struct firn_train *t = pair->train[which];
    return t != NULL && t->state == TRAIN_RUNS && !firn_train_is_done(t);
}

/* The steps of both go with the next checkpoint of either. */
static void note_steps(struct firn_pair *p)
{
    for (int i = 0; i < 2 && p->train[1] != NULL; i++) {
        p->train[i]->both[0] = p->train[0]->step;
        p->train[i]->both[1] = p->train[1]->step;
    }
}

/* The next session that is not closed; -1: none. */
static int choose(const struct firn_pair *p)
{
    const struct firn_train *a = p->train[0], *b = p->train[1];
    bool has_a = a->state == TRAIN_RUNS;
    bool has_b = b != NULL && b->state == TRAIN_RUNS;
    if (!has_a || !has_b)
        return has_a ? 0 : has_b ? 1 : -1;
    uint64_t step = a->ordinary + b->ordinary;
    uint64_t epoch = step / (p->nsamples[0] + p->nsamples[1]);
    return (int)firn_task_of_step(&p->mix, epoch, step);
}

/* Saves or stops the partner at a boundary at which `t` was saved or stopped.
 */
static void keep_up(struct firn_train *t, bool stops)
{
    bool written = false;
    struct firn_error why = {0};
    if (t == NULL || t->state != TRAIN_RUNS)
        return;
    t->saved = 0; /* what it shares with the other has changed since */
    if (stops) {
        t->stop = true;
        firn_train_go(t);
        return;
    }
    if (t->dir != NULL && firn_train_save(t, &written, &why) != FIRN_OK)
        firn_train_fail(t, &why);
    else if (t->dir != NULL && !written)
        firn_train_say(t, "no checkpoint at step %llu: %s",
                       (unsigned long long)t->step, why.text);
}

int firn_pair_go(struct firn_pair *pair)
{
    struct firn_pair *p = pair;
    if (p->last != NULL &&
        p->last->reduced_s > 0) { /* its step ends here, not at its next turn */
        firn_train_time_step(p->last);
        p->last->reduced_s = 0;
    }
    p->last = NULL;
    for (;;) {
        int next = choose(p);
        if (next < 0)
            return -1;
        struct firn_train *t = p->train[next], *other = p->train[1 - next];
        note_steps(p);
        uint64_t before = t->nsaves;
        bool goes = firn_train_go(t);
        if (t->state == TRAIN_FAILED)
            return -1;
        if (t->state == TRAIN_STOPPED || t->nsaves != before)
            keep_up(other, t->state == TRAIN_STOPPED);
        if (other != NULL && other->state == TRAIN_FAILED)
            return -1;
        if (goes) {
            p->last = t;
            return next;
        }
    }
}

int firn_pair_close(struct firn_pair *pair, struct firn_error *err)
{
    int code = 0;
    if (pair == NULL)
        return 1;
    note_steps(pair);
    for (int i = 0; i < 2 && pair->train[i] != NULL; i++) {
        struct firn_error why = {0};
        int its = firn_train_close(pair->train[i], &why);
        if (its == 1 && code != 1 && err != NULL)
            *err = why;
        if (its == 1 || code == 0)
            code = its;
    }
    free(pair);
    return code;
}

/* --- resuming ------------------------------------------------------------ */

/* The checkpoint names these steps of both; a finished session need not. */
static bool agrees(const struct firn_train *t, const uint64_t both[2])
{
    return firn_train_is_done(t) ||
           (t->both[0] == both[0] && t->both[1] == both[1]);
}

static bool is_one_moment(const struct firn_pair *p)
{
    uint64_t both[2] = {p->train[0]->step, p->train[1]->step};
    return agrees(p->train[0], both) && agrees(p->train[1], both);
}

/* The session that is ahead goes back to the step in the partner's checkpoint.
 */
static enum firn_status meet(struct firn_pair *p, struct firn_error *err)
{
    const uint64_t *a = p->train[0]->both, *b = p->train[1]->both;
    int ahead = a[0] + a[1] > b[0] + b[1] ? 0 : 1;
    struct firn_train *t = p->train[ahead];
    uint64_t step = p->train[1 - ahead]->both[ahead];
    bool found = false;
    FIRN_TRY(firn_train_resume_at(t, step, &found, err));
    if (!is_one_moment(p))
        firn_train_say(t, "the checkpoints of the two jobs are of different "
                          "moments; each goes on from its own");
    return FIRN_OK;
}

enum firn_status firn_pair_resume(struct firn_pair *pair, bool *resumed,
                                  struct firn_error *err)
{
    struct firn_pair *p = pair;
    bool any = false;
    for (int i = 0; i < 2 && p->train[i] != NULL; i++) {
        bool was = false;
        FIRN_TRY(firn_train_resume(p->train[i], &was, err));
        any = any || was;
    }
    if (p->train[1] != NULL && any && !is_one_moment(p))
        FIRN_TRY(meet(p, err));
    if (resumed != NULL)
        *resumed = any;
    return FIRN_OK;
}

/* --- after another ------------------------------------------------------- */

static enum firn_status take_weights(struct firn_train *t, const char *name,
                                     bool *began, struct firn_error *err)
{
    const char *dir = word_of("FIRN_AFTER"), *job = word_of("FIRN_AFTER_JOB");
    struct firn_error refused = {0};
    struct firn_ckpt *ckpt = NULL;
    size_t i = 0;
    while (i < t->nshared && strcmp(t->shared[i].name, name) != 0)
        i++;
    if (i == t->nshared)
        return firn_fail(err, FIRN_EINVAL, "there is no shared tensor '%s'",
                         name);
    if (dir[0] == '\0' || job[0] == '\0')
        return FIRN_OK;
    enum firn_status status =
        firn_ckpt_open_newest(&ckpt, dir, job, &refused, err);
    if (status == FIRN_ENOENT)
        return FIRN_OK;
    FIRN_TRY(status);
    status = firn_ckpt_take(ckpt, name, t->shared[i].type, t->shared[i].data,
                            t->shared[i].nbytes, err);
    firn_ckpt_close(ckpt);
    *began = status == FIRN_OK;
    return status;
}

enum firn_status firn_train_begin_after(struct firn_train *train,
                                        const char *name, bool *began,
                                        struct firn_error *err)
{
    struct firn_train *t = train;
    struct firn_error why = {0};
    firn_train_uses(t, FIRN_CAN_AFTER);
    *began = false;
    if (t->joins) /* it gets the weights of the running group */
        return FIRN_OK;
    enum firn_status status = take_weights(t, name, began, &why);
    int64_t failed = status != FIRN_OK, most = *began;
    FIRN_TRY(firn_group_max(t->group, &failed, err));
    FIRN_TRY(firn_group_max(t->group, &most, err));
    if (status != FIRN_OK)
        return firn_fail(err, status, "%s", why.text);
    if (failed != 0 || (most != 0) != *began)
        return firn_fail(err, FIRN_EIO,
                         "another process could not begin with the weights");
    if (*began)
        firn_train_unprobe(t);
    return FIRN_OK;
}
