/* train_join.c - a training session that is resized without a stop.
 *
 * What a checkpoint holds goes from process to process instead (firn/join.h):
 * shared tensors, decisions, progress and measured sums from the old process 0
 * to the joiners, the contexts of all threads to all. Everything is received
 * beside what is in use, and taken into use when all have agreed.
 *
 * Invariants
 *   1. Until the agreement no process of the old layout changes its session;
 *      a joiner's session may be half filled, and is thrown away then.
 *   2. A joiner begins with the step that the others begin: the boundary at
 *      which it joined is behind it, decisions and checkpoints included.
 *   3. Fields that decide whether a collective call is made are the same in
 *      all processes: they are in `struct moved`.
 */
#include "train/groupwork.h"
#include "train/rehome.h"
#include "train/trainwork.h"
#include <stdlib.h>
#include <string.h>

/* What is the same in all processes, besides tensors: (3). */
struct moved {
    uint64_t registry; /* of the tensors that the program has named */
    uint64_t step, ordinary, decided, saved, nmeasured;
    uint64_t base_epoch, base_ordinary, steps_per_epoch;
    uint64_t both[2], ndecisions;
    double loss, metric, effective, mean_square;
    struct train_pulse word;
    unsigned due;
    int batch, sum, passes_asked, frozen_asked, batch_asked;
    bool measures, has_before, has_variance, is_finished, stop;
};

/* What an old process or a joiner has ready when all agree. */
struct news {
    struct firn_group *group; /* NULL in a leaver */
    struct firn_threads *threads;
    unsigned char *pulses;
    struct moved moved;
};

bool firn_train_can_join(const struct firn_train *t)
{
    return t->join != NULL && !t->is_paired;
}

enum firn_status firn_train_plan_group(struct firn_train *t,
                                       const struct firn_group_config *group,
                                       struct firn_error *err)
{
    return firn_grp_plan(&t->group, group, err);
}

/* --- what moves ----------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x100000001b3u;
}

static uint64_t registry_of(const struct firn_train *t)
{
    uint64_t facts[] = {t->nelements, t->nlayers, (uint64_t)t->nthreads,
                        t->nshared, sizeof(struct moved)};
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        hash = mix(hash, facts[i]);
    for (size_t i = 0; i < t->nshared; i++) {
        for (const char *at = t->shared[i].name; *at != '\0'; at++)
            hash = mix(hash, (unsigned char)*at);
        hash = mix(mix(hash, 0), t->shared[i].nbytes);
    }
    return hash;
}

static size_t bytes_of(const struct firn_train *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->nshared; i++)
        n += t->shared[i].nbytes;
    return n;
}

static void fill_in(const struct firn_train *t, struct moved *m)
{
    memset(m, 0, sizeof *m);
    m->registry = registry_of(t);
    m->step = t->step;
    m->ordinary = t->ordinary;
    m->decided = t->decided;
    m->saved = t->saved;
    m->nmeasured = t->nmeasured;
    m->base_epoch = t->base_epoch;
    m->base_ordinary = t->base_ordinary;
    m->steps_per_epoch = t->steps_per_epoch;
    m->both[0] = t->both[0];
    m->both[1] = t->both[1];
    m->ndecisions = firn_freezer_saved(t->freezer);
    m->loss = t->loss;
    m->metric = t->metric;
    m->effective = t->effective;
    m->mean_square = t->mean_square;
    m->word = t->word;
    m->due = t->due;
    m->batch = t->sampler.batch;
    m->sum = (int)firn_train_sum(t);
    m->passes_asked = t->passes_asked;
    m->frozen_asked = t->frozen_asked;
    m->batch_asked = t->batch_asked;
    m->measures = t->measures;
    m->has_before = t->has_before;
    m->has_variance = t->has_variance;
    m->is_finished = t->is_finished;
    m->stop = t->stop;
}

static void take(struct firn_train *t, const struct moved *m)
{
    t->step = m->step;
    t->ordinary = m->ordinary;
    t->decided = m->decided;
    t->saved = m->saved;
    t->nmeasured = m->nmeasured;
    t->base_epoch = m->base_epoch;
    t->base_ordinary = m->base_ordinary;
    t->steps_per_epoch = m->steps_per_epoch;
    t->both[0] = m->both[0];
    t->both[1] = m->both[1];
    t->loss = m->loss;
    t->metric = m->metric;
    t->effective = m->effective;
    t->mean_square = m->mean_square;
    t->word = m->word;
    t->due = m->due;
    t->sampler.batch = m->batch;
    t->passes_asked = m->passes_asked;
    t->frozen_asked = m->frozen_asked;
    t->batch_asked = m->batch_asked;
    t->measures = m->measures;
    t->has_before = m->has_before;
    t->has_variance = m->has_variance;
    t->is_finished = m->is_finished;
    t->stop = m->stop;
    t->reported_step = t->step;
}

/* The freezer's decisions and what it is owed. */
static enum firn_status move_decisions(struct firn_train *t, size_t n,
                                       struct firn_error *err)
{
    void *bytes = calloc(1, n + 1);
    if (bytes == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for decisions");
    if (!t->joins)
        firn_freezer_save(t->freezer, bytes);
    enum firn_status status = firn_join_send(t->join, bytes, n, err);
    if (status == FIRN_OK && t->joins)
        status = firn_freezer_load(t->freezer, bytes, n, err);
    free(bytes);
    return status;
}

/* With one thread: the mean of the step before. */
static enum firn_status make_before(struct firn_train *t, const struct moved *m,
                                    struct firn_error *err)
{
    if (!m->measures || t->nthreads > 1 || t->before != NULL)
        return FIRN_OK;
    t->before = calloc(t->nelements + 1, sizeof *t->before);
    return t->before != NULL ? FIRN_OK
                             : firn_fail(err, FIRN_ENOMEM, "no memory");
}

/* Collective: all that is the same in every process, to the joiners. */
static enum firn_status move_shared(struct firn_train *t, struct moved *m,
                                    struct firn_error *err)
{
    if (!t->joins)
        fill_in(t, m);
    uint64_t own = registry_of(t);
    FIRN_TRY(firn_join_send(t->join, m, sizeof *m, err));
    if (m->registry != own)
        return firn_fail(err, FIRN_EINVAL,
                         "a process that joins has named other tensors than "
                         "the running ones");
    for (size_t i = 0; i < t->nshared; i++)
        FIRN_TRY(firn_join_send(t->join, t->shared[i].data, t->shared[i].nbytes,
                                err));
    size_t layers = t->nlayers * sizeof *t->meansq;
    FIRN_TRY(firn_join_send(t->join, t->meansq, layers, err));
    FIRN_TRY(firn_join_send(t->join, t->variance, layers, err));
    FIRN_TRY(make_before(t, m, err));
    if (m->has_before)
        FIRN_TRY(firn_join_send(t->join, t->before,
                                t->nelements * sizeof *t->before, err));
    return move_decisions(t, (size_t)m->ndecisions, err);
}

/* The threads that this process has in the new layout. */
static enum firn_status new_threads(struct firn_train *t, const void *contexts,
                                    size_t nbytes, struct firn_threads **out,
                                    struct firn_error *err)
{
    int rank = firn_join_rank(t->join);
    int *owner = malloc(2 * (size_t)t->nthreads * sizeof *owner);
    if (owner == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a layout");
    int *id = owner + t->nthreads;
    size_t n = 0;
    enum firn_status status = FIRN_OK;
    if (!firn_join_layout(t->join, t->nthreads, owner))
        status = firn_fail(err, FIRN_EINVAL, "the new layout does not fit");
    for (int v = 0; status == FIRN_OK && v < t->nthreads; v++)
        if (owner[v] == rank)
            id[n++] = v;
    if (status == FIRN_OK)
        status =
            firn_threads_rehome(out, t->threads, id, n, contexts, nbytes, err);
    free(owner);
    return status;
}

static enum firn_status move_contexts(struct firn_train *t, struct news *news,
                                      struct firn_error *err)
{
    void *own = NULL, *all = NULL;
    size_t nown = 0, nall = 0;
    if (!t->joins)
        FIRN_TRY(firn_threads_pack(t->threads, &own, &nown, err));
    enum firn_status status =
        firn_join_share(t->join, own, nown, &all, &nall, err);
    if (status == FIRN_OK && firn_join_rank(t->join) >= 0)
        status = new_threads(t, all, nall, &news->threads, err);
    if (own != NULL)
        firn_threads_pack_free(own);
    firn_group_free(all);
    return status;
}

/* --- the switch ----------------------------------------------------------- */

static struct firn_group_config config_of(const struct firn_train *t)
{
    const char *key = getenv("FIRN_GROUP_KEY");
    return (struct firn_group_config){
        .name = t->group_name,
        .rank = t->rank,
        .nprocs = t->nprocs,
        .nthreads = t->nthreads,
        .nelements = t->nelements,
        .chain = t->is_chain,
        .timeout_s = t->timeout_s,
        .key = key != NULL && key[0] != '\0' ? key : NULL};
}

/* Collective over old processes and joiners: all but the agreement. */
static enum firn_status move(struct firn_train *t, uint64_t order,
                             struct news *news, struct firn_error *err)
{
    struct firn_group_config c = config_of(t);
    FIRN_TRY(firn_join_meet(t->join, order, &c, bytes_of(t), err));
    enum firn_status status = move_shared(t, &news->moved, err);
    if (status == FIRN_OK)
        status = move_contexts(t, news, err);
    int nprocs = firn_join_nprocs(t->join);
    if (status == FIRN_OK && firn_join_rank(t->join) >= 0) {
        news->pulses = calloc((size_t)nprocs, t->pulse_bytes);
        if (news->pulses == NULL)
            status = firn_fail(err, FIRN_ENOMEM, "no memory");
    }
    if (status == FIRN_OK)
        c.sum = (enum firn_sum)news->moved.sum;
    struct firn_error why = *err;
    enum firn_status formed = firn_join_form(
        t->join, &c, status == FIRN_OK ? NULL : why.text, &news->group, err);
    return formed;
}

static void drop(struct news *news)
{
    firn_group_close(news->group);
    firn_threads_free(news->threads);
    free(news->pulses);
}

/* The new group, contexts and rank of a process that goes on. */
static enum firn_status go_on(struct firn_train *t, struct news *news,
                              struct firn_error *err)
{
    bool was_first = t->rank == 0;
    firn_group_swap(t->group, news->group);
    firn_threads_swap(t->threads, news->threads);
    unsigned char *pulses = t->pulses;
    t->pulses = news->pulses;
    news->pulses = pulses;
    t->nmine = firn_group_threads(t->group, &t->mine);
    t->rank = firn_join_rank(t->join);
    t->nprocs = firn_join_nprocs(t->join);
    if (t->rank != 0 || was_first)
        return FIRN_OK;
    firn_reporter_close(t->reporter, 0);
    t->reporter = NULL;
    return firn_train_open_reporter(t, NULL, err);
}

enum firn_status firn_train_switch(struct firn_train *t, uint64_t order,
                                   struct firn_error *err)
{
    struct news news = {0};
    struct firn_error why = {0};
    bool committed = false;
    enum firn_status moved = move(t, order, &news, &why);
    enum firn_status status =
        firn_join_agree(t->join, t->group, moved == FIRN_OK ? NULL : why.text,
                        t->step, &committed, err);
    if (status == FIRN_OK && committed && firn_join_rank(t->join) >= 0)
        status = go_on(t, &news, err);
    else if (status == FIRN_OK && committed) {
        /* The others have its threads; it is no process of the group any more.
         */
        t->state = TRAIN_LEFT;
        t->group->nmine = t->nmine = 0;
        t->rank = -1;
    } else if (status == FIRN_OK && t->rank == 0)
        firn_train_say(t, "not resized at step %llu: %s",
                       (unsigned long long)t->step, why.text);
    drop(&news);
    return status;
}

enum firn_status firn_train_join(struct firn_train *t, struct firn_error *err)
{
    struct news news = {0};
    struct firn_error why = {0};
    bool committed = false;
    const char *order = getenv("FIRN_JOIN_ORDER");
    if (order == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_JOIN_ORDER is not set: a process joins by "
                         "order of its supervisor only");
    FIRN_TRY(firn_join_ready(t->join, err));
    enum firn_status moved = move(t, strtoull(order, NULL, 10), &news, &why);
    enum firn_status status = firn_join_agree(
        t->join, NULL, moved == FIRN_OK ? NULL : why.text, 0, &committed, err);
    if (status == FIRN_OK)
        status = go_on(t, &news, err);
    if (status == FIRN_OK) {
        take(t, &news.moved);
        t->joins = false;
        t->has_pulse = t->is_joined = true; /* (2) */
        firn_train_unprobe(t);
    }
    drop(&news);
    return status;
}
