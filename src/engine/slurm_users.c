/* slurm_users.c - as which user a Slurm job is submitted and cancelled.
 *
 * Without a launcher all Slurm jobs are firnd's own user's, and firnd takes
 * jobs of no other user. With one (firn-launch, src/launch) each job is
 * submitted as the user who gave it to firn: Slurm's account, QOS, fair share
 * and limits are the user's, and squeue and sacct show the user.
 *
 *     firnd --slurm-as SOCKET sbatch ann 7 3 MARK --nodes=1 ...
 *
 * asks the launcher, which drops root for good and runs sbatch with arguments
 * of a closed list. The alternative is Slurm's tokens (scontrol token
 * username=ann, by SlurmUser or root only) with slurmrestd: firnd would hold
 * the right to act as every user of the cluster, root's too, at a site that has
 * slurmrestd and auth/jwt set up. The launcher has less: members of one group,
 * two commands, no root.
 *
 * Invariants:
 * (1) a Slurm job of another user than the attempt's is not the attempt's,
 *     whatever its name: a user may give any name to a job;
 * (2) no variable of firnd's environment reaches another user's job.
 *
 * Cost: the queue of all users is read, in place of one user's.
 */
#define _GNU_SOURCE
#include "base/str.h"
#include "engine/slurmwork.h"
#include <pwd.h>
#include <string.h>
#include <unistd.h>

void slurm_users_open(struct slurm *slurm)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) != 0 ||
        found == NULL ||
        !str_copy(slurm->own_user, sizeof slurm->own_user, entry.pw_name))
        slurm->own_user[0] = '\0';
}

bool slurm_has_users(const struct slurm *slurm)
{
    return slurm->launcher[0] != '\0';
}

void slurm_user_of(const struct slurm *slurm, struct slurmjob *job,
                   const struct firn_launch *launch)
{
    job->user[0] = '\0';
    if (slurm_has_users(slurm) && launch->user != NULL &&
        strcmp(launch->user, slurm->own_user) != 0)
        str_copy(job->user, sizeof job->user, launch->user);
}

bool slurm_is_user(const struct slurm *slurm, const char *user,
                   const char *listed)
{
    if (!slurm_has_users(slurm))
        return true; /* squeue was asked for firnd's own jobs */
    return strcmp(user[0] != '\0' ? user : slurm->own_user, listed) == 0;
}

const char *slurm_user_listed(const struct slurm *slurm, const char *listed)
{
    bool is_own =
        !slurm_has_users(slurm) || strcmp(listed, slurm->own_user) == 0;
    return is_own ? "" : listed;
}

void slurm_users_argv(const struct slurm *slurm, const char *program,
                      const char *user, const struct slurm_tag *tag,
                      struct slurm_argv *out, struct arena *text)
{
    vec_add(&out->at, "/proc/self/exe");
    vec_add(&out->at, "--slurm-as");
    vec_add(&out->at, arena_strdup(text, slurm->launcher));
    vec_add(&out->at, arena_strdup(text, program));
    vec_add(&out->at, arena_strdup(text, user));
    vec_add(&out->at, arena_printf(text, "%lld", (long long)tag->job));
    vec_add(&out->at, arena_printf(text, "%lld", (long long)tag->attempt));
    vec_add(
        &out->at,
        arena_strdup(text, slurm->host.mark != NULL ? slurm->host.mark : ""));
}
