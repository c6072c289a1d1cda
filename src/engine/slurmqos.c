/* slurmqos.c - reads the limits of QOS, and users' default QOS.
 *
 * A QOS limits all its jobs together (Grp...), each job (Max...PJ), and the
 * jobs of each account and of each user together (Max...PA, Max...PU). The last
 * two are listed for accounts and users that have had jobs; the limit is the
 * same for all others.
 *
 * Invariants: those of slurmrules.c.
 *
 * Cost: O(bytes) for each key of a line.
 */
#include "engine/slurmqos.h"
#include <stdio.h>
#include <string.h>

static void copy(char out[SLURM_RULE_NAME], const char *from, size_t n)
{
    snprintf(out, SLURM_RULE_NAME, "%.*s", (int)n, from);
}

/* "1009" on Slurm 22.05, "ann(1009)" on 24.11: its number. */
static void copy_user(char out[SLURM_RULE_NAME], const char *from, size_t n)
{
    const char *open = memchr(from, '(', n);
    if (open != NULL && from[n - 1] == ')')
        copy(out, open + 1, n - (size_t)(open - from) - 2);
    else
        copy(out, from, n);
}

/* "ml={MaxJobsPA=4(1) ... MaxTRESPA=...}": `mark` is at the brace. */
static bool read_share(const char *line, const char *mark,
                       struct slurm_share *out)
{
    char inner[2048], text[1024];
    const char *from = mark - 1; /* at '=' */
    while (from > line && from[-1] != ' ')
        from--;
    size_t n = strcspn(mark + 1, "}");
    if (n >= sizeof inner || from == mark - 1)
        return false;
    snprintf(inner, sizeof inner, "%.*s", (int)n, mark + 1);
    out->is_user = strncmp(inner, "MaxJobsPU", 9) == 0;
    (out->is_user ? copy_user : copy)(out->who, from,
                                      (size_t)(mark - 1 - from));
    out->limit = slurm_no_limits();
    slurm_value_of(inner, out->is_user ? "MaxTRESPU" : "MaxTRESPA", text,
                   sizeof text);
    out->limit.gpus_all = slurm_gpus_of(text, &out->limit.gpus_used);
    slurm_value_of(inner, out->is_user ? "MaxJobsPU" : "MaxJobsPA", text,
                   sizeof text);
    out->limit.jobs_all = slurm_limit_of(text, &out->limit.jobs_used);
    return true;
}

bool slurm_qos_read(const char *line, slurm_share_fn *add, void *arg)
{
    static const char key[] = "={MaxJobsP";
    struct slurm_share share = {0};
    char text[1024];
    int used = 0;
    if (strncmp(line, "QOS=", 4) != 0)
        return false;
    copy(share.qos, line + 4, strcspn(line + 4, "( "));
    share.limit = slurm_no_limits();
    slurm_value_of(line, "GrpTRES", text, sizeof text);
    share.limit.gpus_all = slurm_gpus_of(text, &share.limit.gpus_used);
    slurm_value_of(line, "MaxTRESPJ", text, sizeof text);
    share.limit.gpus_each = slurm_gpus_of(text, &used);
    slurm_value_of(line, "GrpJobs", text, sizeof text);
    share.limit.jobs_all = slurm_limit_of(text, &share.limit.jobs_used);
    slurm_value_of(line, "MaxWallPJ", text, sizeof text);
    share.limit.wall_min = slurm_limit_of(text, &used);
    add(arg, &share);
    for (const char *at = line; (at = strstr(at, key)) != NULL; at++)
        if (read_share(line, at + 1, &share))
            add(arg, &share);
    return true;
}

bool slurm_share_equal(const struct slurm_share *a, const struct slurm_share *b)
{
    return strcmp(a->qos, b->qos) == 0 && strcmp(a->who, b->who) == 0 &&
           a->is_user == b->is_user && slurm_assoc_equal(&a->limit, &b->limit);
}

bool slurm_default_read(const char *line, const char *cluster,
                        struct slurm_default *out)
{
    char *const fields[] = {out->account, out->user, out->partition, out->qos};
    size_t n = strcspn(line, "|");
    *out = (struct slurm_default){0};
    if (strlen(cluster) != n || strncmp(line, cluster, n) != 0 || n == 0)
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (line[n] != '|')
            return false;
        line += n + 1;
        n = strcspn(line, "|\n");
        copy(fields[i], line, n);
    }
    return out->account[0] != '\0' && line[n] != '|';
}
