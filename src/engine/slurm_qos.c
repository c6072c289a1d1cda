/* slurm_qos.c - the QOS of a job, and what its limits leave.
 *
 * A job's QOS is the one it names (`slurm: {qos: ...}` or slurm.options), else
 * the default of its user's association, which only sacctmgr prints, else
 * "normal". A partition may have a QOS too, whose limits hold for all jobs
 * there. If sacctmgr has not answered, the default is not known, and only a QOS
 * that is named counts: limits that are not known are left to Slurm's reasons
 * (slurm_pending.c).
 *
 * Invariant: what was used is as old as the last answer; Slurm decides.
 *
 * Cost: O(limits of all QOS) for a question about a job.
 */
#include "engine/slurmqos.h"
#include "engine/slurmwork.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct slurm_qos {
    VEC(struct slurm_share) shares;
    VEC(struct slurm_default) defaults;
    bool has_defaults; /* sacctmgr has answered */
};

void slurm_qos_open(struct slurm *slurm)
{
    slurm->qos = mem_new(1, sizeof *slurm->qos);
}

void slurm_qos_close(struct slurm *slurm)
{
    if (slurm->qos == NULL)
        return;
    vec_release(&slurm->qos->shares);
    vec_release(&slurm->qos->defaults);
    mem_free(slurm->qos);
    slurm->qos = NULL;
}

static void add_share(void *arg, const struct slurm_share *share)
{
    struct slurm_qos *qos = arg;
    vec_add(&qos->shares, *share);
}

bool slurm_qos_take(struct slurm *slurm, struct firn_bytes text)
{
    struct slurm_qos now = {0}, *before = slurm->qos;
    struct firn_bytes line;
    while (slurm_line_next(&text, &line)) {
        char *copy = mem_new(line.n + 1, 1);
        memcpy(copy, line.at, line.n);
        (void)slurm_qos_read(copy, add_share, &now);
        mem_free(copy);
    }
    bool is_new = now.shares.n != before->shares.n;
    for (size_t i = 0; i < now.shares.n && !is_new; i++)
        is_new = !slurm_share_equal(&now.shares.at[i], &before->shares.at[i]);
    vec_release(&before->shares);
    before->shares.at = now.shares.at;
    before->shares.n = now.shares.n;
    before->shares.cap = now.shares.cap;
    return is_new;
}

bool slurm_qos_defaults(struct slurm *slurm, const char *cluster,
                        struct firn_bytes text)
{
    struct firn_bytes line;
    struct slurm_default one;
    size_t before = slurm->qos->defaults.n;
    bool is_new = !slurm->qos->has_defaults;
    slurm->qos->defaults.n = 0;
    slurm->qos->has_defaults = true;
    while (slurm_line_next(&text, &line)) {
        char *copy = mem_new(line.n + 1, 1);
        memcpy(copy, line.at, line.n);
        if (slurm_default_read(copy, cluster, &one))
            vec_add(&slurm->qos->defaults, one);
        mem_free(copy);
    }
    return is_new || before != slurm->qos->defaults.n;
}

/* "": not known. */
static void default_of(const struct slurm *slurm, const char *user,
                       const char *account, char out[SLURM_RULE_NAME])
{
    const struct slurm_default *found = NULL;
    for (size_t i = 0; i < slurm->qos->defaults.n; i++) {
        const struct slurm_default *at = &slurm->qos->defaults.at[i];
        if (strcmp(at->user, user) == 0 &&
            strcasecmp(at->account, account) == 0 &&
            (at->partition[0] == '\0' ||
             strcmp(at->partition, slurm->partition) == 0) &&
            (found == NULL || at->partition[0] != '\0'))
            found = at;
    }
    const char *usual = !slurm->qos->has_defaults                ? ""
                        : found == NULL || found->qos[0] == '\0' ? "normal"
                                                                 : found->qos;
    snprintf(out, SLURM_RULE_NAME, "%s", usual);
}

/* The limit of this account or user; of one without jobs that of another, with
 * nothing used. */
static const struct slurm_share *share_of(const struct slurm *slurm,
                                          const char *qos, bool is_user,
                                          const char *who, bool *is_own)
{
    const struct slurm_share *like = NULL;
    for (size_t i = 0; i < slurm->qos->shares.n; i++) {
        const struct slurm_share *at = &slurm->qos->shares.at[i];
        bool is_kind = strcmp(at->qos, qos) == 0 && at->is_user == is_user &&
                       (at->who[0] == '\0') == (who[0] == '\0');
        *is_own = is_kind && strcasecmp(at->who, who) == 0;
        if (*is_own)
            return at;
        like = is_kind ? at : like;
    }
    return like;
}

static void limits_of(const struct slurm *slurm, const char *qos,
                      const struct slurm_assoc *assoc,
                      struct slurm_qos_limits *out)
{
    char number[24];
    snprintf(number, sizeof number, "%d", assoc->uid);
    const struct {
        const char *who, *whose;
        bool is_user;
    } kinds[] = {{"", "", false},
                 {assoc->account, assoc->account, false},
                 {number, assoc->user, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && qos[0] != '\0';
         i++) {
        bool is_own = false;
        const struct slurm_share *share =
            share_of(slurm, qos, kinds[i].is_user, kinds[i].who, &is_own);
        if (share == NULL || kinds[i].is_user != share->is_user)
            continue;
        struct slurm_assoc *at = &out->at[out->n++];
        *at = share->limit;
        if (!is_own)
            at->gpus_used = at->jobs_used = 0;
        snprintf(at->account, sizeof at->account, "QOS %.20s%s%.30s", qos,
                 kinds[i].whose[0] != '\0' ? " for " : "", kinds[i].whose);
    }
}

void slurm_qos_limits(const struct slurm *slurm, const char *named,
                      const struct slurm_assoc *assoc,
                      struct slurm_qos_limits *out)
{
    char usual[SLURM_RULE_NAME];
    *out = (struct slurm_qos_limits){0};
    if (named[0] == '\0')
        default_of(slurm, assoc->user, assoc->account, usual);
    const char *own = named[0] != '\0' ? named : usual;
    limits_of(slurm, own, assoc, out);
    if (strcmp(slurm->partition_qos, own) != 0)
        limits_of(slurm, slurm->partition_qos, assoc, out);
}
