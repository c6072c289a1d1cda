/* train_env.c - settings from the environment: the launcher's and firn's.
 *
 * torchrun's variables and firn's own, listed in firn/train.h. An invalid
 * number is an error that names its variable; a program's own config replaces
 * the environment.
 */
#include "base/str.h"
#include "train/trainwork.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *word_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Leaves *value when the variable is not set. */
static enum firn_status number(int *value, const char *name, int low, int high,
                               struct firn_error *err)
{
    const char *text = word_of(name);
    if (text == NULL)
        return FIRN_OK;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || n < low || n > high)
        return firn_fail(err, FIRN_EINVAL,
                         "%s is '%.40s', not a number from %d to %d", name,
                         text, low, high);
    *value = (int)n;
    return FIRN_OK;
}

/* "0,0,1,2": one owner for each thread. */
static enum firn_status layout(struct train_env *env, struct firn_error *err)
{
    const char *at = word_of("FIRN_LAYOUT");
    if (at == NULL)
        return FIRN_OK;
    int *owner = malloc((size_t)env->nthreads * sizeof *owner);
    if (owner == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a layout");
    for (int v = 0; v < env->nthreads; v++) {
        char *end;
        errno = 0;
        long rank = strtol(at, &end, 10);
        bool last = v == env->nthreads - 1;
        if (end == at || errno != 0 || rank < 0 || rank >= env->nprocs ||
            *end != (last ? '\0' : ',')) {
            free(owner);
            return firn_fail(err, FIRN_EINVAL,
                             "FIRN_LAYOUT is not the processes, 0 to %d, of "
                             "%d threads: thread %d",
                             env->nprocs - 1, env->nthreads, v);
        }
        owner[v] = (int)rank;
        at = end + 1;
    }
    env->owner = owner;
    return FIRN_OK;
}

static enum firn_status rule(struct train_env *env, struct firn_error *err)
{
    const char *text = word_of("FIRN_FREEZE");
    env->rule = FIRN_FREEZER_OFF;
    if (text == NULL || strcmp(text, "off") == 0)
        return FIRN_OK;
    if (strcmp(text, "penalty") == 0)
        env->rule = FIRN_FREEZER_PENALTY;
    else if (strcmp(text, "freezeout") == 0)
        env->rule = FIRN_FREEZER_FREEZEOUT;
    else
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_FREEZE is '%.40s', not off, penalty or "
                         "freezeout",
                         text);
    return FIRN_OK;
}

static enum firn_status batch_rule(struct train_env *env,
                                   struct firn_error *err)
{
    const char *text = word_of("FIRN_BATCH_RULE");
    if (text == NULL || firn_batch_rule_named(text, &env->batch_rule))
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "FIRN_BATCH_RULE is '%.40s', not none, linear, sqrt or "
                     "adascale",
                     text);
}

/* The config's order, else that of FIRN_SUM. */
static enum firn_status sum(struct train_env *env,
                            const struct firn_train_config *c,
                            struct firn_error *err)
{
    const char *text = word_of("FIRN_SUM");
    env->sum = c->sum;
    if (c->sum != FIRN_SUM_DEFAULT || text == NULL)
        return FIRN_OK;
    if (strcmp(text, "tree") == 0)
        env->sum = FIRN_SUM_TREE;
    else if (strcmp(text, "chain") == 0)
        env->sum = FIRN_SUM_CHAIN;
    else
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_SUM is '%.40s', not tree or chain", text);
    return FIRN_OK;
}

/* Leaves *value when the variable is not set. */
static enum firn_status amount(double *value, const char *name, double most,
                               struct firn_error *err)
{
    const char *text = word_of(name);
    double n = 0;
    if (text == NULL)
        return FIRN_OK;
    if (!str_double(text, &n) || !(n > 0 && n <= most))
        return firn_fail(err, FIRN_EINVAL,
                         "%s is '%.40s', not a number above 0 and up to %g",
                         name, text, most);
    *value = n;
    return FIRN_OK;
}

static enum firn_status names(struct train_env *env,
                              const struct firn_train_config *c,
                              struct firn_error *err)
{
    const char *job = word_of(
        "FIRN_JOB"); /* the launched job's, also in the partner's group */
    const char *own = c->as != NULL ? c->as->job : job;
    const char *name = c->name != NULL ? c->name : own != NULL ? own : "train";
    if (strlen(name) >= sizeof env->name)
        return firn_fail(err, FIRN_EINVAL, "the name %.40s... is too long",
                         name);
    snprintf(env->name, sizeof env->name, "%s", name);
    int attempt = 0; /* FIRN_EPOCH: set by older schedulers */
    FIRN_TRY(number(&attempt, "FIRN_EPOCH", 0, 0x7fffffff, err));
    FIRN_TRY(number(&attempt, "FIRN_ATTEMPT", 0, 0x7fffffff, err));
    snprintf(env->group_name, sizeof env->group_name, "%s.%.*s.%d.%d", name,
             TRAIN_NAME, job != NULL ? job : "", attempt, env->port);
    env->dir = c->dir != NULL ? c->dir : word_of("FIRN_DIR");
    env->key = word_of("FIRN_GROUP_KEY"); /* of both groups: names differ */
    if (c->as != NULL)
        env->dir = c->as->dir[0] != '\0' ? c->as->dir : NULL;
    return FIRN_OK;
}

enum firn_status firn_train_env(struct train_env *env,
                                const struct firn_train_config *c,
                                struct firn_error *err)
{
    memset(env, 0, sizeof *env);
    env->nprocs = 1;
    env->frozen = -1;
    FIRN_TRY(number(&env->nprocs, "WORLD_SIZE", 1, 4096, err));
    FIRN_TRY(number(&env->rank, "RANK", 0, env->nprocs - 1, err));
    env->local_nprocs = env->nprocs;
    FIRN_TRY(
        number(&env->local_nprocs, "LOCAL_WORLD_SIZE", 1, env->nprocs, err));
    env->local_rank = env->rank % env->local_nprocs;
    FIRN_TRY(
        number(&env->local_rank, "LOCAL_RANK", 0, env->local_nprocs - 1, err));
    int port = 29500; /* torchrun's own */
    FIRN_TRY(number(&port, "MASTER_PORT", 1, 65533, err));
    env->port = port + 1 + (c->as != NULL);
    env->address = word_of("MASTER_ADDR");
    if (env->address == NULL)
        env->address = "127.0.0.1";
    env->nthreads = c->nthreads;
    if (env->nthreads == 0 && c->as != NULL)
        env->nthreads = c->as->nthreads;
    if (env->nthreads == 0) {
        env->nthreads = env->nprocs;
        FIRN_TRY(number(&env->nthreads, "FIRN_THREADS", 1, 1 << 20, err));
    }
    if (env->nthreads < env->nprocs)
        return firn_fail(err, FIRN_EINVAL, "%d threads on %d processes",
                         env->nthreads, env->nprocs);
    FIRN_TRY(number(&env->passes, "FIRN_PASSES", 1, 1 << 20, err));
    if (c->as == NULL) { /* of the launched job, not of its partner */
        FIRN_TRY(number(&env->batch, "FIRN_BATCH", 1, 1000000000, err));
        FIRN_TRY(number(&env->frozen, "FIRN_FROZEN", 0, 1 << 20, err));
        FIRN_TRY(batch_rule(env, err));
    }
    FIRN_TRY(names(env, c, err));
    FIRN_TRY(rule(env, err));
    FIRN_TRY(sum(env, c, err));
    FIRN_TRY(amount(&env->timeout_s, "FIRN_PEER_TIMEOUT_S", 1e9, err));
    if (c->peer_timeout_s > 0)
        env->timeout_s = c->peer_timeout_s;
    FIRN_TRY(amount(&env->frozen_max, "FIRN_FREEZE_MAX", 1, err));
    if (c->as != NULL) /* a co-trained job has its own limit */
        env->frozen_max = c->as->frozen_max;
    FIRN_TRY(amount(&env->every_s, "FIRN_CKPT_EVERY_S", 1e9, err));
    if (c->as == NULL)
        FIRN_TRY(number(&env->anew, "FIRN_ANEW", 0, 1 << 30, err));
    FIRN_TRY(
        amount(&env->target,
               c->as != NULL ? "FIRN_MATE_TARGET_METRIC" : "FIRN_TARGET_METRIC",
               1e12, err));
    return c->as != NULL ? FIRN_OK : layout(env, err);
}
