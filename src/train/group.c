/* group.c - opening a group, its placement, and the calls of firn/group.h.
 *
 * Opening goes in this order: the processes of a host find each other in
 * shared memory; their leaders find each other over TCP; the leader of a host
 * tells its processes where all others live; memory for the vectors is added.
 * Each step fails for all processes of the host with the same error text, which
 * the shared memory of the first step carries.
 *
 * Invariants
 *   1. All processes have the same placement: a hash of it is compared.
 *   2. The ranks of a host are neighbours, its leader has the lowest, and
 *      process 0 is a leader.
 *   3. After a failure every call fails with the same text.
 */
#include "train/groupwork.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the placement ------------------------------------------------------- */

static enum firn_status check_ranks(const struct firn_group_config *c,
                                    struct firn_error *err)
{
    if (c->nprocs < 1 || c->nprocs > GRP_MAX_PROCS || c->rank < 0 ||
        c->rank >= c->nprocs)
        return firn_fail(err, FIRN_EINVAL, "group: process %d of %d", c->rank,
                         c->nprocs);
    int nlocal = c->local_nprocs, local = c->local_rank;
    if (nlocal == 0)
        return FIRN_OK;
    if (local < 0 || local >= nlocal || nlocal > c->nprocs || local > c->rank ||
        c->rank - local + nlocal > c->nprocs)
        return firn_fail(err, FIRN_EINVAL,
                         "group: process %d cannot be local process %d of %d",
                         c->rank, local, nlocal);
    if (nlocal < c->nprocs &&
        (c->address == NULL || c->port < 1 || c->port > 65535))
        return firn_fail(err, FIRN_EINVAL,
                         "group: several hosts need an address and a port");
    return FIRN_OK;
}

/* Processes of one host meet in memory of their user's own; those of several
 * hosts meet over TCP, where anyone can call or listen. */
static enum firn_status check_key(const struct firn_group_config *c,
                                  struct firn_error *err)
{
    unsigned char key[GRP_KEY];
    if (c->key != NULL && !firn_grp_key_read(key, c->key))
        return firn_fail(err, FIRN_EINVAL,
                         "group %s: the key (FIRN_GROUP_KEY) is not %d "
                         "hexadecimal digits",
                         c->name, 2 * GRP_KEY);
    firn_grp_key_wipe(key, sizeof key);
    if (c->local_nprocs == 0 || c->local_nprocs == c->nprocs)
        return FIRN_OK;
    if (c->key == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "group %s: processes on several hosts need a key: "
                         "set FIRN_GROUP_KEY to the same value for all, made "
                         "by `openssl rand -hex %d`",
                         c->name, GRP_KEY);
    return firn_grp_auth_ready(err);
}

static enum firn_status check_config(const struct firn_group_config *c,
                                     struct firn_error *err)
{
    if (c->name == NULL || c->name[0] == '\0')
        return firn_fail(err, FIRN_EINVAL, "group: the name is missing");
    FIRN_TRY(check_ranks(c, err));
    if (c->nthreads < c->nprocs || c->nthreads > 1 << 20)
        return firn_fail(err, FIRN_EINVAL,
                         "group %s: %d threads on %d "
                         "processes",
                         c->name, c->nthreads, c->nprocs);
    if (c->nelements > SIZE_MAX / 16 / ((size_t)c->nthreads + 4))
        return firn_fail(err, FIRN_EINVAL, "group %s: %zu elements", c->name,
                         c->nelements);
    if (!(c->timeout_s >= 0) || isinf(c->timeout_s))
        return firn_fail(err, FIRN_EINVAL, "group %s: timeout of %g s", c->name,
                         c->timeout_s);
    return check_key(c, err);
}

/* Every thread has a process, every process a thread. */
static enum firn_status place_threads(struct firn_group *g,
                                      const struct firn_group_config *c,
                                      struct firn_error *err)
{
    for (int v = 0; v < g->nthreads; v++) {
        int owner = c->owner != NULL
                        ? c->owner[v]
                        : (int)((int64_t)v * g->nprocs / g->nthreads);
        if (owner < 0 || owner >= g->nprocs)
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: thread %d is given to process %d of %d",
                             g->name, v, owner, g->nprocs);
        g->owner[v] = owner;
        if (owner == g->rank)
            g->mine[g->nmine++] = v;
    }
    bool seen[GRP_MAX_PROCS] = {false};
    for (int v = 0; v < g->nthreads; v++)
        seen[g->owner[v]] = true;
    for (int r = 0; r < g->nprocs; r++)
        if (!seen[r])
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: process %d has no thread", g->name, r);
    return FIRN_OK;
}

/* A chain needs each process to hold one run of threads. */
static enum firn_status check_runs(const struct firn_group *g,
                                   struct firn_error *err)
{
    bool seen[GRP_MAX_PROCS] = {false};
    for (int v = 0; v < g->nthreads && grp_is_chain(g); v++) {
        int owner = g->owner[v];
        if (v > 0 && owner == g->owner[v - 1])
            continue;
        if (seen[owner])
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: in a chain the threads of process %d "
                             "must be neighbours",
                             g->name, owner);
        seen[owner] = true;
    }
    return FIRN_OK;
}

static uint64_t shape_of(const struct firn_group *g)
{
    uint64_t facts[] = {(uint64_t)g->nprocs,
                        (uint64_t)g->nthreads,
                        (uint64_t)g->nelements,
                        g->little,
                        g->sum,
                        sizeof(size_t)};
    uint64_t hash = firn_grp_hash(0xcbf29ce484222325u, facts, sizeof facts);
    hash = firn_grp_hash(hash, g->name, strlen(g->name));
    return firn_grp_hash(hash, g->owner,
                         (size_t)g->nthreads * sizeof *g->owner);
}

/* --- opening and closing ------------------------------------------------- */

static bool allocate(struct firn_group *g, const struct firn_group_config *c)
{
    size_t v = (size_t)g->nthreads, p = (size_t)g->nprocs;
    g->name = malloc(strlen(c->name) + 1);
    g->owner = malloc(v * sizeof *g->owner);
    g->mine = malloc(v * sizeof *g->mine);
    g->put = calloc(v, sizeof *g->put);
    g->leaf = calloc(v, sizeof *g->leaf);
    g->node = calloc(v, sizeof *g->node);
    g->node_first = calloc(v + 1, sizeof *g->node_first);
    g->leaf_first = calloc(v + 1, sizeof *g->leaf_first);
    g->proc_at = calloc(p, sizeof *g->proc_at);
    g->block = calloc(v, sizeof *g->block);
    g->places = calloc(v, sizeof *g->places);
    g->in = calloc(v, sizeof *g->in);
    g->host = calloc(p, sizeof *g->host);
    if (g->name == NULL || g->owner == NULL || g->mine == NULL ||
        g->put == NULL || g->leaf == NULL || g->node == NULL ||
        g->node_first == NULL || g->leaf_first == NULL || g->proc_at == NULL ||
        g->block == NULL || g->places == NULL || g->in == NULL ||
        g->host == NULL)
        return false;
    memcpy(g->name, c->name, strlen(c->name) + 1);
    for (size_t h = 0; h < p; h++)
        g->host[h].fd = -1;
    return true;
}

static void fill_in(struct firn_group *g, const struct firn_group_config *c)
{
    g->fd = -1;
    g->rank = c->rank;
    g->nprocs = c->nprocs;
    g->local = c->local_nprocs == 0 ? c->rank : c->local_rank;
    g->nlocal = c->local_nprocs == 0 ? c->nprocs : c->local_nprocs;
    g->first = g->rank - g->local;
    g->nthreads = c->nthreads;
    g->nelements = c->nelements;
    g->sum = c->sum == FIRN_SUM_CHAIN ? FIRN_SUM_CHAIN : FIRN_SUM_TREE;
    /* With one thread each, slots need no more memory. */
    g->little = c->chain && (c->nthreads > c->nprocs || g->nlocal < c->nprocs);
    g->timeout_s = c->timeout_s > 0 ? c->timeout_s : 300;
    g->has_key = c->key != NULL && firn_grp_key_read(g->key, c->key) &&
                 firn_grp_auth_ready(NULL) == FIRN_OK;
    g->nhosts = 1;
    g->host[0] = (struct grp_host){.nprocs = c->nprocs, .fd = -1};
}

/* The leader sends what it learned of the other hosts to its processes. */
static enum firn_status share_places(struct firn_group *g,
                                     struct firn_error *err)
{
    struct grp_place *place = firn_grp_places(g);
    for (int h = 0; h < g->nhosts && grp_leads(g); h++)
        place[h] = (struct grp_place){g->host[h].first, g->host[h].nprocs};
    if (grp_leads(g))
        g->control->nhosts = g->nhosts;
    FIRN_TRY(firn_grp_meet(g, 2, err));
    g->nhosts = g->control->nhosts;
    for (int h = 0; h < g->nhosts; h++) {
        g->host[h].first = place[h].first;
        g->host[h].nprocs = place[h].nprocs;
    }
    g->at_host = firn_grp_host_of(g, g->rank);
    return FIRN_OK;
}

/* A chain goes through the hosts one after the other: the first process of a
 * host whose threads are no neighbours; -1: all are. */
static int scattered_host(const struct firn_group *g)
{
    bool seen[GRP_MAX_PROCS] = {false};
    for (int v = 0, last = -1; v < g->nthreads && grp_is_chain(g); v++) {
        int host = firn_grp_host_of(g, g->owner[v]);
        if (host != last && seen[host])
            return g->host[host].first;
        seen[host] = true;
        last = host;
    }
    return -1;
}

#define SCATTERED                                               \
    "in a chain the threads of the host of process %d must be " \
    "neighbours"

static enum firn_status meet_all(struct firn_group *g,
                                 const struct firn_group_config *c,
                                 struct firn_error *err)
{
    FIRN_TRY(firn_grp_attach(g, err));
    if (grp_leads(g) && g->nlocal < g->nprocs)
        FIRN_TRY(firn_grp_rendezvous(g, c, err));
    if (g->nlocal < g->nprocs)
        FIRN_TRY(share_places(g, err));
    int process = scattered_host(g);
    if (process >= 0)
        return firn_grp_fail(g, err, SCATTERED, process);
    FIRN_TRY(
        firn_grp_map_data(g, firn_grp_data_floats(g) * sizeof(float), err));
    return FIRN_OK;
}

static enum firn_status start(struct firn_group *g,
                              const struct firn_group_config *c,
                              struct firn_error *err)
{
    FIRN_TRY(place_threads(g, c, err));
    FIRN_TRY(check_runs(g, err));
    g->shape = shape_of(g);
    return meet_all(g, c, err);
}

/* A socket that was given to the group and not used: all are on one host. */
static void drop_listener(struct firn_group *g)
{
    if (g->watch.listener > 0)
        close(g->watch.listener - 1);
    g->watch.listener = 0;
}

enum firn_status firn_group_open(struct firn_group **out,
                                 const struct firn_group_config *config,
                                 struct firn_error *err)
{
    return firn_grp_open(out, config, NULL, err);
}

enum firn_status firn_grp_open(struct firn_group **out,
                               const struct firn_group_config *config,
                               const struct grp_watch *watch,
                               struct firn_error *err)
{
    FIRN_TRY(check_config(config, err));
    struct firn_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return firn_fail(err, FIRN_ENOMEM, "group %s: no memory", config->name);
    g->fd = -1;
    g->nprocs = config->nprocs;
    g->nthreads = config->nthreads;
    if (watch != NULL)
        g->watch = *watch;
    enum firn_status status = FIRN_OK;
    if (!allocate(g, config))
        status =
            firn_fail(err, FIRN_ENOMEM, "group %s: no memory", config->name);
    if (status == FIRN_OK) {
        fill_in(g, config);
        status = start(g, config, err);
        firn_grp_key_wipe(g->key, sizeof g->key);
    }
    if (status != FIRN_OK) {
        firn_group_close(g);
        return status;
    }
    drop_listener(g);
    g->watch = (struct grp_watch){0};
    *out = g;
    return FIRN_OK;
}

enum firn_status firn_grp_plan(struct firn_group **out,
                               const struct firn_group_config *config,
                               struct firn_error *err)
{
    FIRN_TRY(check_config(config, err));
    struct firn_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return firn_fail(err, FIRN_ENOMEM, "group %s: no memory", config->name);
    g->nprocs = config->nprocs;
    g->nthreads = config->nthreads;
    enum firn_status status =
        firn_fail(err, FIRN_ENOMEM, "group %s: no memory", config->name);
    if (allocate(g, config)) {
        fill_in(g, config);
        firn_grp_key_wipe(g->key, sizeof g->key);
        status = place_threads(g, config, err);
    }
    if (status == FIRN_OK)
        *out = g;
    else
        firn_group_close(g);
    return status;
}

void firn_group_close(struct firn_group *group)
{
    struct firn_group *g = group;
    if (g == NULL)
        return;
    drop_listener(g);
    if (g->host != NULL)
        firn_grp_hang_up(g);
    firn_grp_detach(g);
    free(g->name);
    free(g->owner);
    free(g->mine);
    free(g->put);
    free(g->leaf);
    free(g->node);
    free(g->node_first);
    free(g->leaf_first);
    free(g->proc_at);
    free(g->block);
    free(g->places);
    free(g->in);
    free(g->host);
    free(g);
}

void firn_group_swap(struct firn_group *a, struct firn_group *b)
{
    struct firn_group was = *a;
    *a = *b;
    *b = was;
}

enum firn_sum firn_group_sum(const struct firn_group *group)
{
    return group->sum;
}

enum firn_status firn_group_set_sum(struct firn_group *group, enum firn_sum sum,
                                    struct firn_error *err)
{
    struct firn_group *g = group;
    enum firn_sum was = g->sum;
    g->sum = sum == FIRN_SUM_CHAIN ? FIRN_SUM_CHAIN : FIRN_SUM_TREE;
    enum firn_status status = check_runs(g, err);
    int process = scattered_host(g);
    if (status == FIRN_OK && process >= 0)
        status = firn_fail(err, FIRN_EINVAL, SCATTERED, process);
    if (status != FIRN_OK)
        g->sum = was;
    firn_grp_lay_out(g);
    memset(g->put, 0, g->nmine * sizeof *g->put);
    return status;
}

/* --- gradients ----------------------------------------------------------- */

size_t firn_group_threads(const struct firn_group *group, const int **threads)
{
    if (threads != NULL)
        *threads = group->mine;
    return group->nmine;
}

/* The index of a thread among those of this process; nmine: not here. */
static size_t index_of(const struct firn_group *g, int thread)
{
    size_t i = 0;
    while (i < g->nmine && g->mine[i] != thread)
        i++;
    return i;
}

float *firn_group_slot(struct firn_group *group, int thread)
{
    if (group->little || index_of(group, thread) == group->nmine)
        return NULL;
    return firn_grp_slot(group, thread);
}

enum firn_status firn_group_put(struct firn_group *group, int thread,
                                const float *grad, size_t start_at,
                                struct firn_error *err)
{
    struct firn_group *g = group;
    size_t i = index_of(g, thread);
    if (i == g->nmine || start_at > g->nelements)
        return firn_fail(err, FIRN_EINVAL,
                         "group %s: process %d cannot put element %zu of "
                         "thread %d",
                         g->name, g->rank, start_at, thread);
    FIRN_TRY(firn_grp_sound(g, err));
    if (grp_is_chain(g)) {
        FIRN_TRY(firn_grp_chain_put(g, i, grad, start_at, err));
    } else if (g->little) {
        FIRN_TRY(firn_grp_tree_put(g, i, grad, start_at, err));
    } else {
        float *slot = firn_grp_slot(g, thread);
        if (grad != slot && g->nelements > start_at)
            memcpy(slot + start_at, grad + start_at,
                   (g->nelements - start_at) * sizeof *grad);
    }
    g->put[i] = start_at + 1;
    return FIRN_OK;
}

static enum firn_status check_puts(const struct firn_group *g, size_t start_at,
                                   struct firn_error *err)
{
    if (start_at > g->nelements)
        return firn_fail(err, FIRN_EINVAL, "group %s: start %zu of %zu",
                         g->name, start_at, g->nelements);
    for (size_t i = 0; i < g->nmine; i++)
        if (g->put[i] == 0 || g->put[i] - 1 > start_at)
            return firn_fail(err, FIRN_EINVAL,
                             "group %s: thread %d was not put from element "
                             "%zu on",
                             g->name, g->mine[i], start_at);
    return FIRN_OK;
}

/* A leader that fails lets the other hosts know. */
static enum firn_status notify_hosts(struct firn_group *g,
                                     enum firn_status status)
{
    if (status != FIRN_OK && grp_leads(g) && g->nhosts > 1)
        firn_grp_tell_failed(g, g->control->text);
    return status;
}

enum firn_status firn_group_reduce(struct firn_group *group, float *out,
                                   size_t start_at, float divisor,
                                   struct firn_error *err)
{
    struct firn_group *g = group;
    FIRN_TRY(firn_grp_sound(g, err));
    FIRN_TRY(check_puts(g, start_at, err));
    FIRN_TRY(notify_hosts(
        g, grp_is_chain(g)
               ? firn_grp_chain_reduce(g, out, start_at, divisor, err)
               : firn_grp_leaves_reduce(g, out, start_at, divisor, err)));
    memset(g->put, 0, g->nmine * sizeof *g->put);
    g->nreduced++;
    return FIRN_OK;
}

double firn_group_timeout_s(const struct firn_group *group)
{
    return group->timeout_s;
}

uint64_t firn_group_bytes(const struct firn_group *group)
{
    return group->nbytes;
}
