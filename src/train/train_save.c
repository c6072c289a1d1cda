/* train_save.c - the checkpoints of a training session.
 *
 * Process 0 writes one file: shared tensors from its own memory (all processes
 * have the same), the contexts of all threads as gathered from the processes
 * that hold them, decisions, progress. Resuming, process 0 finds the newest
 * whole file and tells its step; every process reads that one, and all agree
 * on whether it could.
 *
 *   train/progress   i64: version, step, ordinary, due, decided, nmeasured,
 *                    threads, elements, layers, has_before
 *   train/decisions  the freezer: log, variances, what is owed
 *   train/meansq     f64, by layer; train/before f32 (one thread only)
 *   train/sum        "tree" or "chain": the order of sums; absent: chain
 *   train/both       i64: steps of both jobs of a merge (mate.c); else absent
 *   train/finished   i64: of a run whose trainer ended it; else absent
 *   train/batch      i64: epochs and ordinary steps at the last change of the
 *                    batch, and a thread's batch; absent if it never changed
 *   thread/<v>/...   contexts; all else: shared tensors by their names
 */
#include "train/trainwork.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION,
    STEP,
    ORDINARY,
    DUE,
    DECIDED,
    NMEASURED,
    NTHREADS,
    NELEMENTS,
    NLAYERS,
    HAS_BEFORE,
    NPROGRESS
};

static void progress_of(const struct firn_train *t, int64_t *at)
{
    at[VERSION] = 1;
    at[STEP] = (int64_t)t->step;
    at[ORDINARY] = (int64_t)t->ordinary;
    at[DUE] = (int64_t)t->due;
    at[DECIDED] = (int64_t)t->decided;
    at[NMEASURED] = (int64_t)t->nmeasured;
    at[NTHREADS] = t->nthreads;
    at[NELEMENTS] = (int64_t)t->nelements;
    at[NLAYERS] = (int64_t)t->nlayers;
    at[HAS_BEFORE] = t->has_before;
}

/* --- writing ------------------------------------------------------------- */

static enum firn_status put(struct firn_ckpt_writer *w, const char *name,
                            enum firn_ckpt_type type, const void *data,
                            size_t nbytes, struct firn_error *err)
{
    struct firn_ckpt_section s = {.name = name,
                                  .type = type,
                                  .ndims = 1,
                                  .dims = {nbytes / firn_ckpt_type_bytes(type)},
                                  .data = data,
                                  .nbytes = nbytes};
    return firn_ckpt_put(w, &s, err);
}

static enum firn_status put_own(struct firn_train *t,
                                struct firn_ckpt_writer *w,
                                struct firn_error *err)
{
    int64_t progress[NPROGRESS];
    progress_of(t, progress);
    FIRN_TRY(put(w, "train/progress", FIRN_CKPT_I64, progress, sizeof progress,
                 err));
    for (size_t i = 0; i < t->nshared; i++)
        FIRN_TRY(put(w, t->shared[i].name, t->shared[i].type, t->shared[i].data,
                     t->shared[i].nbytes, err));
    FIRN_TRY(put(w, "train/meansq", FIRN_CKPT_F64, t->meansq,
                 t->nlayers * sizeof *t->meansq, err));
    const char *sum = firn_sum_name(firn_train_sum(t));
    FIRN_TRY(put(w, "train/sum", FIRN_CKPT_BYTES, sum, strlen(sum), err));
    int64_t both[2] = {(int64_t)t->both[0], (int64_t)t->both[1]};
    if (t->is_paired)
        FIRN_TRY(put(w, "train/both", FIRN_CKPT_I64, both, sizeof both, err));
    int64_t batch[3] = {(int64_t)t->base_epoch, (int64_t)t->base_ordinary,
                        t->sampler.batch};
    if (firn_freezer_batch(t->freezer) > 0)
        FIRN_TRY(
            put(w, "train/batch", FIRN_CKPT_I64, batch, sizeof batch, err));
    int64_t finished = 1;
    if (t->is_finished)
        FIRN_TRY(put(w, "train/finished", FIRN_CKPT_I64, &finished,
                     sizeof finished, err));
    if (t->has_before)
        FIRN_TRY(put(w, "train/before", FIRN_CKPT_F32, t->before,
                     t->nelements * sizeof *t->before, err));
    size_t n = firn_freezer_saved(t->freezer);
    void *bytes = malloc(n + 1);
    if (bytes == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a checkpoint");
    firn_freezer_save(t->freezer, bytes);
    enum firn_status status =
        put(w, "train/decisions", FIRN_CKPT_BYTES, bytes, n, err);
    free(bytes);
    return status;
}

static enum firn_status write_all(struct firn_train *t, const void *contexts,
                                  const size_t *nbytes, struct firn_error *err)
{
    struct firn_ckpt_writer *w;
    FIRN_TRY(firn_ckpt_create(&w, t->dir, t->name, t->step, err));
    enum firn_status status = put_own(t, w, err);
    const char *at = contexts;
    for (int r = 0; r < t->nprocs && status == FIRN_OK; at += nbytes[r++])
        status = firn_threads_write(at, nbytes[r], w, err);
    if (status != FIRN_OK) {
        firn_ckpt_drop(w);
        return status;
    }
    return firn_ckpt_commit(w, t->keep, err);
}

enum firn_status firn_train_save(struct firn_train *t, bool *written,
                                 struct firn_error *err)
{
    void *packed = NULL, *all = NULL;
    size_t npacked = 0;
    size_t *nall = malloc((size_t)t->nprocs * sizeof *nall);
    enum firn_status status =
        nall != NULL ? firn_threads_pack(t->threads, &packed, &npacked, err)
                     : firn_fail(err, FIRN_ENOMEM, "no memory");
    if (status == FIRN_OK)
        status = firn_group_gather(t->group, packed, npacked, &all, nall, err);
    int64_t failed = 0;
    if (status == FIRN_OK && t->rank == 0)
        failed = write_all(t, all, nall, err) != FIRN_OK;
    firn_group_free(all);
    if (packed != NULL)
        firn_threads_pack_free(packed);
    free(nall);
    FIRN_TRY(status);
    struct firn_error why;
    if (firn_group_max(t->group, &failed, &why) != FIRN_OK) {
        *err = why;
        return why.status;
    }
    t->saved_s = firn_train_now_s();
    *written = failed == 0;
    t->nsaves += *written;
    if (*written)
        t->saved = t->step + 1;
    else if (t->rank != 0)
        firn_fail(err, FIRN_EIO, "process 0 could not write a checkpoint");
    return FIRN_OK;
}

/* --- resuming ------------------------------------------------------------ */

static enum firn_status check_progress(const struct firn_train *t,
                                       const int64_t *p, struct firn_error *err)
{
    if (p[VERSION] != 1)
        return firn_fail(err, FIRN_EINVAL,
                         "a checkpoint of version %lld, not 1",
                         (long long)p[VERSION]);
    if (p[NTHREADS] != t->nthreads)
        return firn_fail(err, FIRN_EINVAL,
                         "a checkpoint of %lld threads cannot go on with %d",
                         (long long)p[NTHREADS], t->nthreads);
    if (p[NELEMENTS] != (int64_t)t->nelements ||
        p[NLAYERS] != (int64_t)t->nlayers)
        return firn_fail(err, FIRN_EINVAL,
                         "a checkpoint of another model: %lld elements in "
                         "%lld layers, not %zu in %zu",
                         (long long)p[NELEMENTS], (long long)p[NLAYERS],
                         t->nelements, t->nlayers);
    if (p[STEP] < 0 || p[ORDINARY] < 0 || p[ORDINARY] > p[STEP] || p[DUE] < 0 ||
        p[DUE] > 1000000 || (p[DUE] > 0 && p[ORDINARY] == 0) ||
        p[DECIDED] < 0 || p[NMEASURED] < 0)
        return firn_fail(err, FIRN_EINVAL, "its progress is inconsistent");
    return FIRN_OK;
}

/* Of a job that was trained alone: nothing that another's could agree with. */
static void take_both(struct firn_train *t, const struct firn_ckpt *ckpt)
{
    int64_t both[2] = {-1, -1};
    struct firn_error none;
    if (firn_ckpt_find(ckpt, "train/both") != NULL)
        firn_ckpt_take(ckpt, "train/both", FIRN_CKPT_I64, both, sizeof both,
                       &none);
    t->both[0] = (uint64_t)both[0];
    t->both[1] = (uint64_t)both[1];
}

/* The batch of now, and what epochs are counted by. */
static enum firn_status take_batch(struct firn_train *t,
                                   const struct firn_ckpt *ckpt,
                                   struct firn_error *err)
{
    int64_t batch[3] = {0};
    if (firn_ckpt_find(ckpt, "train/batch") == NULL)
        return FIRN_OK;
    FIRN_TRY(firn_ckpt_take(ckpt, "train/batch", FIRN_CKPT_I64, batch,
                            sizeof batch, err));
    if (!firn_train_has_sampler(t))
        return firn_fail(err, FIRN_EINVAL,
                         "its batch was changed by order, and this program "
                         "takes no such orders");
    if (batch[0] < 0 || batch[1] < 0 || (uint64_t)batch[1] > t->ordinary ||
        batch[2] < 1 || (uint64_t)batch[2] > firn_sampler_places(&t->sampler))
        return firn_fail(err, FIRN_EINVAL, "its batch is inconsistent");
    t->base_epoch = (uint64_t)batch[0];
    t->base_ordinary = (uint64_t)batch[1];
    t->sampler.batch = (int)batch[2];
    t->steps_per_epoch = firn_sampler_batches(&t->sampler);
    if (t->steps_per_epoch == 0)
        return firn_fail(err, FIRN_EINVAL, "its batch is inconsistent");
    return FIRN_OK;
}

/* Training goes on in the order it began with, unless it was asked for
 * another. */
static enum firn_status take_sum(struct firn_train *t,
                                 const struct firn_ckpt *ckpt,
                                 struct firn_error *err)
{
    const struct firn_ckpt_section *s = firn_ckpt_find(ckpt, "train/sum");
    enum firn_sum found = FIRN_SUM_CHAIN;
    if (s != NULL && s->nbytes == 4 && memcmp(s->data, "tree", 4) == 0)
        found = FIRN_SUM_TREE;
    else if (s != NULL && (s->nbytes != 5 || memcmp(s->data, "chain", 5) != 0))
        return firn_fail(err, FIRN_EINVAL,
                         "its order of sums (train/sum) is '%.*s', not tree or "
                         "chain",
                         (int)(s->nbytes < 40 ? s->nbytes : 40),
                         (const char *)s->data);
    if (t->sum == FIRN_SUM_DEFAULT)
        return firn_group_set_sum(t->group, found, err);
    if (t->sum != found)
        firn_train_say(t,
                       "the checkpoint's gradients were summed in the order "
                       "'%s'; from here on in the order '%s', as asked for",
                       firn_sum_name(found), firn_sum_name(t->sum));
    return FIRN_OK;
}

static enum firn_status take_own(struct firn_train *t,
                                 const struct firn_ckpt *ckpt, const int64_t *p,
                                 struct firn_error *err)
{
    const struct firn_ckpt_section *s = firn_ckpt_find(ckpt, "train/decisions");
    if (s == NULL)
        return firn_fail(err, FIRN_EINVAL, "it has no train/decisions");
    for (size_t i = 0; i < t->nshared; i++)
        FIRN_TRY(firn_ckpt_take(ckpt, t->shared[i].name, t->shared[i].type,
                                t->shared[i].data, t->shared[i].nbytes, err));
    FIRN_TRY(firn_ckpt_take(ckpt, "train/meansq", FIRN_CKPT_F64, t->meansq,
                            t->nlayers * sizeof *t->meansq, err));
    t->has_before = p[HAS_BEFORE] != 0 && t->before != NULL;
    if (t->has_before)
        FIRN_TRY(firn_ckpt_take(ckpt, "train/before", FIRN_CKPT_F32, t->before,
                                t->nelements * sizeof *t->before, err));
    FIRN_TRY(firn_threads_read(t->threads, ckpt, err));
    FIRN_TRY(firn_freezer_load(t->freezer, s->data, (size_t)s->nbytes, err));
    t->step = (uint64_t)p[STEP];
    t->ordinary = (uint64_t)p[ORDINARY];
    t->due = (unsigned)p[DUE];
    t->decided = (uint64_t)p[DECIDED];
    t->nmeasured = (uint64_t)p[NMEASURED];
    t->saved = t->step + 1;
    t->reported_step = t->step;
    t->is_finished = firn_ckpt_find(ckpt, "train/finished") != NULL;
    take_both(t, ckpt);
    return take_batch(t, ckpt, err);
}

static enum firn_status take_all(struct firn_train *t,
                                 const struct firn_ckpt *ckpt,
                                 struct firn_error *err)
{
    int64_t progress[NPROGRESS];
    enum firn_status status = firn_ckpt_take(
        ckpt, "train/progress", FIRN_CKPT_I64, progress, sizeof progress, err);
    if (status == FIRN_OK)
        status = check_progress(t, progress, err);
    if (status == FIRN_OK)
        status = take_sum(t, ckpt, err);
    if (status == FIRN_OK)
        status = take_own(t, ckpt, progress, err);
    return status == FIRN_OK ? FIRN_OK : firn_fail_in(err, t->dir);
}

/* Process 0 finds the newest complete file; damaged ones are logged. */
static enum firn_status find(struct firn_train *t, struct firn_ckpt **ckpt,
                             struct firn_error *err)
{
    struct firn_error refused = {0};
    enum firn_status status =
        firn_ckpt_open_newest(ckpt, t->dir, t->name, &refused, err);
    if (refused.text[0] != '\0')
        firn_train_say(t, "passed over: %s", refused.text);
    return status;
}

static enum firn_status open_step(struct firn_train *t, uint64_t step,
                                  struct firn_ckpt **ckpt,
                                  struct firn_error *err)
{
    size_t room = strlen(t->dir) + strlen(t->name) + 32;
    char *path = malloc(room);
    if (path == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory");
    snprintf(path, room, "%s/%s-%012llu.ckpt", t->dir, t->name,
             (unsigned long long)step);
    enum firn_status status = firn_ckpt_open(ckpt, path, err);
    free(path);
    return status;
}

/* What process 0 found: 0 nothing, 1 a file, 2 a failure. */
static enum firn_status agree(struct firn_train *t, enum firn_status status,
                              struct firn_ckpt *ckpt, uint64_t head[2],
                              struct firn_error *err)
{
    struct firn_error why;
    head[0] = status == FIRN_OK ? 1 : status == FIRN_ENOENT ? 0 : 2;
    head[1] = ckpt != NULL ? firn_ckpt_step(ckpt) : 0;
    if (firn_group_bcast(t->group, head, 2 * sizeof *head, 0, &why) !=
        FIRN_OK) {
        if (err != NULL)
            *err = why;
        return why.status;
    }
    return FIRN_OK;
}

enum firn_status firn_train_resume(struct firn_train *train, bool *resumed,
                                   struct firn_error *err)
{
    struct firn_train *t = train;
    struct firn_ckpt *ckpt = NULL;
    struct firn_error why = {0};
    uint64_t head[2];
    if (resumed != NULL)
        *resumed = false;
    if (firn_train_can_join(t)) {
        firn_train_uses(t, FIRN_CAN_JOIN);
        firn_join_able(t->join);
    }
    if (t->joins) {
        FIRN_TRY(firn_train_join(t, err));
        if (resumed != NULL)
            *resumed = true;
        return FIRN_OK;
    }
    if (t->dir == NULL)
        return FIRN_OK;
    firn_train_uses(t, FIRN_CAN_RESIZE);
    enum firn_status status = FIRN_OK;
    if (t->rank == 0 && t->anew > 0)
        status = firn_ckpt_anew(t->dir, t->name, t->anew, &why);
    if (t->rank == 0 && status == FIRN_OK)
        status = find(t, &ckpt, &why);
    FIRN_TRY(agree(t, status, ckpt, head, err));
    if (head[0] == 0)
        return FIRN_OK;
    if (head[0] == 2)
        return t->rank == 0
                   ? firn_fail(err, status, "%s", why.text)
                   : firn_fail(err, FIRN_EIO, "process 0 has no checkpoint");
    if (t->rank != 0)
        status = open_step(t, head[1], &ckpt, &why);
    if (status == FIRN_OK)
        status = take_all(t, ckpt, &why);
    firn_ckpt_close(ckpt);
    int64_t failed = status != FIRN_OK;
    FIRN_TRY(firn_group_max(t->group, &failed, err));
    if (status != FIRN_OK)
        return firn_fail(err, status, "%s", why.text);
    if (failed != 0)
        return firn_fail(err, FIRN_EIO, "another process could not resume");
    firn_train_unprobe(t);
    if (resumed != NULL)
        *resumed = true;
    return FIRN_OK;
}

enum firn_status firn_train_resume_at(struct firn_train *t, uint64_t step,
                                      bool *found, struct firn_error *err)
{
    struct firn_ckpt *ckpt = NULL;
    struct firn_error why = {0};
    enum firn_status status = open_step(t, step, &ckpt, &why);
    int64_t missing = status != FIRN_OK;
    FIRN_TRY(firn_group_max(t->group, &missing, err));
    *found = missing == 0;
    if (*found)
        status = take_all(t, ckpt, &why);
    firn_ckpt_close(ckpt);
    int64_t failed = *found && status != FIRN_OK;
    FIRN_TRY(firn_group_max(t->group, &failed, err));
    if (*found && status != FIRN_OK)
        return firn_fail(err, status, "%s", why.text);
    if (failed != 0)
        return firn_fail(err, FIRN_EIO, "another process could not resume");
    return FIRN_OK;
}
