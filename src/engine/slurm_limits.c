/* slurm_limits.c - what a partition allows: time, accounts.
 *
 *     scontrol -o show partition
 *     PartitionName=gpu ... AllowAccounts=ml,bio ... MaxTime=1-00:00:00 ...
 *
 * Read when the engine is opened and by slurm_ahead.c. The time limit is asked
 * for by every attempt (slurm_batch.c), so that Slurm sends its warning in time
 * and a shorter DefaultTime does not end the job. The accounts are compared
 * with those of jobs of the inbox: Slurm moves a job of another account to the
 * partition and never starts it there.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmrules.h"
#include "engine/slurmticket.h"
#include "engine/slurmwork.h"
#include <stdio.h>
#include <string.h>

static bool is_any(const char *list)
{
    return list[0] == '\0' || strcmp(list, "ALL") == 0 ||
           strcmp(list, "(null)") == 0 || strcmp(list, "N/A") == 0;
}

void slurm_limits_read(struct slurm *slurm, const char *line)
{
    char most[64] = "", usual[64] = "";
    double most_s = 0, usual_s = 0;
    slurm_value_of(line, "MaxTime", most, sizeof most);
    slurm_value_of(line, "DefaultTime", usual, sizeof usual);
    if (!slurm_value_of(line, "AllowAccounts", slurm->allow_accounts,
                        sizeof slurm->allow_accounts) ||
        is_any(slurm->allow_accounts))
        slurm->allow_accounts[0] = '\0';
    if (!slurm_value_of(line, "DenyAccounts", slurm->deny_accounts,
                        sizeof slurm->deny_accounts) ||
        is_any(slurm->deny_accounts))
        slurm->deny_accounts[0] = '\0';
    if (!slurm_value_of(line, "QoS", slurm->partition_qos,
                        sizeof slurm->partition_qos) ||
        is_any(slurm->partition_qos))
        slurm->partition_qos[0] = '\0';
    bool has_most = slurm_time_read(most, &most_s) && most_s > 0;
    bool has_usual = slurm_time_read(usual, &usual_s) && usual_s > 0;
    slurm->asks_unlimited = !has_most && has_usual;
    double before_s = slurm->limit_s;
    if (!slurm->has_asked_limit)
        slurm->asked_limit_s = slurm->limit_s;
    bool is_first = !slurm->has_asked_limit;
    slurm->has_asked_limit = true;
    slurm->limit_s = slurm->asked_limit_s;
    if (has_most && (slurm->limit_s <= 0 || slurm->limit_s > most_s))
        slurm->limit_s = most_s;
    if (is_first && slurm->asked_limit_s > most_s && has_most)
        log_warn("slurm.limit is %.0f s, and partition %s allows %.0f s",
                 slurm->asked_limit_s, slurm->partition, most_s);
    if (has_most && slurm->limit_s != before_s)
        log_info("partition %s allows %.0f s for each attempt",
                 slurm->partition, most_s);
}

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t size = strcspn(at, ",");
        if (size == n && strncasecmp(at, name, n) == 0)
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

bool slurm_limits_allow(const struct slurm *slurm, const char *account)
{
    if (is_any(account))
        return true; /* a Slurm without accounts */
    if (slurm->allow_accounts[0] != '\0')
        return is_listed(slurm->allow_accounts, account);
    return !is_listed(slurm->deny_accounts, account);
}
