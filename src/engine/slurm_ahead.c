/* slurm_ahead.c - what Slurm will not allow, read before a job is submitted.
 *
 *     scontrol -o show reservation       nodes that are reserved before the
 *                                        job's time limit is over: barred
 *     scontrol -o show assoc_mgr ...     GPUs and jobs that the limits of the
 *                                        user's and the accounts' associations
 *                                        leave; fewer left than it needs: the
 *                                        job waits
 *     scontrol -o show assoc_mgr ...     the same of QOS (slurm_qos.c)
 *     scontrol -o show partition NAME    accounts and time (slurm_limits.c)
 *     sacctmgr show assoc ...            users' default QOS, every 600 polls
 *
 * Associations and QOS may also limit a job's time (MaxWall): no attempt asks
 * for more.
 *
 * Asked when the engine is opened and every twenty polls. Without this the
 * policy pins a job where Slurm does not start it, and learns that from the
 * reason of the pending job (slurm_pending.c), which stays the second line:
 * limits of licenses and of types of GPUs are only learnt there, and so is what
 * other jobs took since the last answer.
 *
 * Invariants:
 * (1) the host hears of every change: BARS about all jobs. A job that has fewer
 *     GPUs left than it needs is not submitted before that;
 * (2) a job that has GPUs is not told to give some back;
 * (3) an answer that does not come changes nothing.
 *
 * Cost: four commands every twenty polls; O(associations + nodes times
 * reservations) for a question about a job.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmrules.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double first_limit_s = 5; /* for an answer at the start */
static const double again_s = 60;      /* the host asks about a job again */
static const char *const seconds[] = {"SLURM_TIME_FORMAT=%s", NULL};

struct slurm_ahead {
    VEC(struct slurm_booking) bookings;
    VEC(struct slurm_assoc) assocs;
    double due_s;
    double defaults_due_s;         /* sacctmgr is asked again then */
    char cluster[SLURM_RULE_NAME]; /* its name; "": not known */
    char why[SLURM_EXCERPT];
};

enum { BOOKINGS, ASSOCS, QOS, DEFAULTS, PARTITION, NQUESTIONS };

static double every_s(const struct slurm *slurm)
{
    return 20 * slurm->poll_s;
}

static void words_of(const struct slurm *slurm, int question,
                     const char *out[7])
{
    const char *const all[NQUESTIONS][7] = {
        [BOOKINGS] = {"scontrol", "-o", "show", "reservation", NULL},
        [ASSOCS] = {"scontrol", "-o", "show", "assoc_mgr", "flags=assoc", NULL},
        [QOS] = {"scontrol", "-o", "show", "assoc_mgr", "flags=qos", NULL},
        [DEFAULTS] = {"sacctmgr", "-n", "-P", "show", "assoc",
                      "format=Cluster,Account,User,Partition,DefaultQOS", NULL},
        [PARTITION] = {"scontrol", "-o", "show", "partition", slurm->partition,
                       NULL}};
    memcpy(out, all[question], sizeof all[question]);
}

/* --- answers ---------------------------------------------------------------
 */

/* Calls `take` for each line. */
static void each_line(struct slurm *slurm, struct firn_bytes text,
                      void (*take)(struct slurm *slurm, const char *line))
{
    struct firn_bytes line;
    while (slurm_line_next(&text, &line)) {
        char *copy = mem_new(line.n + 1, 1);
        memcpy(copy, line.at, line.n);
        take(slurm, copy);
        mem_free(copy);
    }
}

static void take_booking(struct slurm *slurm, const char *line)
{
    struct slurm_booking booking;
    if (slurm_booking_read(line, &booking))
        vec_add(&slurm->ahead->bookings, booking);
}

static void take_assoc(struct slurm *slurm, const char *line)
{
    struct slurm_assoc assoc;
    if (!slurm_assoc_read(line, &assoc))
        return;
    vec_add(&slurm->ahead->assocs, assoc);
    slurm_value_of(line, "ClusterName", slurm->ahead->cluster,
                   sizeof slurm->ahead->cluster);
}

/* True: it differs from the answer before. */
static bool take_bookings(struct slurm *slurm, struct firn_bytes text)
{
    struct slurm_ahead before = *slurm->ahead;
    slurm->ahead->bookings.at = NULL;
    slurm->ahead->bookings.n = slurm->ahead->bookings.cap = 0;
    each_line(slurm, text, take_booking);
    bool is_new = before.bookings.n != slurm->ahead->bookings.n;
    for (size_t i = 0; i < before.bookings.n && !is_new; i++)
        is_new = !slurm_booking_equal(&before.bookings.at[i],
                                      &slurm->ahead->bookings.at[i]);
    vec_release(&before.bookings);
    return is_new;
}

static bool take_assocs(struct slurm *slurm, struct firn_bytes text)
{
    struct slurm_ahead before = *slurm->ahead;
    slurm->ahead->assocs.at = NULL;
    slurm->ahead->assocs.n = slurm->ahead->assocs.cap = 0;
    each_line(slurm, text, take_assoc);
    bool is_new = before.assocs.n != slurm->ahead->assocs.n;
    for (size_t i = 0; i < before.assocs.n && !is_new; i++)
        is_new = !slurm_assoc_equal(&before.assocs.at[i],
                                    &slurm->ahead->assocs.at[i]);
    vec_release(&before.assocs);
    return is_new;
}

static bool take(struct slurm *slurm, int question, struct firn_bytes text)
{
    char accounts[2][FIRN_TEXT_MAX];
    double limit_s = slurm->limit_s;
    if (question == BOOKINGS)
        return take_bookings(slurm, text);
    if (question == ASSOCS)
        return take_assocs(slurm, text);
    if (question == QOS)
        return slurm_qos_take(slurm, text);
    if (question == DEFAULTS)
        return slurm_qos_defaults(slurm, slurm->ahead->cluster, text);
    memcpy(accounts[0], slurm->allow_accounts, sizeof accounts[0]);
    memcpy(accounts[1], slurm->deny_accounts, sizeof accounts[1]);
    each_line(slurm, text, slurm_limits_read);
    return limit_s != slurm->limit_s ||
           strcmp(accounts[0], slurm->allow_accounts) != 0 ||
           strcmp(accounts[1], slurm->deny_accounts) != 0;
}

/* Without associations there is no accounting, and sacctmgr would only fail. */
static bool is_due(struct slurm *slurm, int question)
{
    double now_s = slurm_now_s(slurm);
    if (question == QOS)
        return slurm->ahead->assocs.n > 0;
    if (question != DEFAULTS)
        return true;
    if (slurm->ahead->assocs.n == 0 || now_s < slurm->ahead->defaults_due_s)
        return false;
    slurm->ahead->defaults_due_s = now_s + 30 * every_s(slurm);
    return true;
}

void slurm_ahead_open(struct slurm *slurm)
{
    const char *argv[7];
    slurm->ahead = mem_new(1, sizeof *slurm->ahead);
    slurm_qos_open(slurm);
    for (int i = 0; i < PARTITION && !slurm->is_from_file; i++) {
        struct firn_buf text = {0};
        if (!is_due(slurm, i))
            continue;
        words_of(slurm, i, argv);
        if (slurm_ask_with(slurm, argv, seconds, first_limit_s, &text) ==
            FIRN_OK)
            take(slurm, i,
                 (struct firn_bytes){text.n > 0 ? text.at : "", text.n});
        buf_release(&text);
    }
    slurm->ahead->due_s = slurm_now_s(slurm) + every_s(slurm);
}

void slurm_ahead_poll(struct slurm *slurm)
{
    const char *argv[7];
    double now_s = slurm_now_s(slurm);
    if (now_s < slurm->ahead->due_s || slurm->away_s > 0 ||
        commands_count(slurm->commands, SLURM_CMD_AHEAD) > 0)
        return;
    slurm->ahead->due_s = now_s + every_s(slurm);
    for (int i = 0; i < NQUESTIONS; i++) {
        if (!is_due(slurm, i))
            continue;
        words_of(slurm, i, argv);
        slurm_run(slurm, argv,
                  &(struct command){.env = seconds,
                                    .limit_s = slurm_answer_s,
                                    .tag = SLURM_CMD_AHEAD,
                                    .about = i});
    }
}

void slurm_ahead_soon(struct slurm *slurm)
{
    slurm->ahead->due_s = fmin(slurm->ahead->due_s, slurm_now_s(slurm));
}

double slurm_ahead_due_s(const struct slurm *slurm)
{
    return slurm->away_s > 0 ||
                   commands_count(slurm->commands, SLURM_CMD_AHEAD) > 0
               ? INFINITY
               : slurm->ahead->due_s;
}

void slurm_ahead_take(struct slurm *slurm, const struct command_done *done)
{
    if (!done->has_run || done->is_late || done->status != 0)
        return;                                   /* (3) */
    if (take(slurm, (int)done->about, done->out)) /* (1) */
        slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_BARS,
                                                .job = FIRN_NO_JOB});
}

void slurm_ahead_close(struct slurm *slurm)
{
    if (slurm->ahead == NULL)
        return;
    vec_release(&slurm->ahead->bookings);
    vec_release(&slurm->ahead->assocs);
    slurm_qos_close(slurm);
    mem_free(slurm->ahead);
    slurm->ahead = NULL;
}

/* --- what follows for a job ------------------------------------------------
 */

/* The value of "--name=" among the job's options, else in slurm.options; "":
 * there is none. */
static void option_of(const struct slurm *slurm,
                      const struct firn_launch *launch, const char *name,
                      char out[SLURM_RULE_NAME])
{
    size_t n = strlen(name);
    const char *at = strstr(slurm->options, name);
    out[0] = '\0';
    if (at != NULL)
        snprintf(out, SLURM_RULE_NAME, "%.*s", (int)strcspn(at + n, " \t"),
                 at + n);
    for (const char *const *word = launch->submit_options;
         word != NULL && *word != NULL; word++)
        if (strncmp(*word, name, n) == 0)
            snprintf(out, SLURM_RULE_NAME, "%s", *word + n);
}

static const struct slurm_assoc *assoc_of(const struct slurm *slurm,
                                          const char *user, const char *account)
{
    const struct slurm_assoc *found = NULL;
    for (size_t i = 0; i < slurm->ahead->assocs.n; i++) {
        const struct slurm_assoc *at = &slurm->ahead->assocs.at[i];
        bool is_its =
            strcmp(at->user, user) == 0 &&
            (account[0] != '\0' ? strcasecmp(at->account, account) == 0
                                : user[0] == '\0' || at->is_default) &&
            (at->partition[0] == '\0' ||
             strcmp(at->partition, slurm->partition) == 0);
        if (is_its && (found == NULL || at->partition[0] != '\0'))
            found = at;
    }
    return found;
}

/* `own`: GPUs of the job that the association counts already. */
static void add_limits(struct slurm *slurm, const struct slurm_assoc *assoc,
                       int own, struct slurm_bounds *out)
{
    int most = -1;
    if (assoc->gpus_each >= 0)
        most = assoc->gpus_each;
    int left = assoc->gpus_all - assoc->gpus_used + own;
    if (assoc->gpus_all >= 0 && (most < 0 || left < most))
        most = left;
    const char *whose = assoc->user[0] != '\0' ? assoc->user : assoc->account;
    bool is_full =
        assoc->jobs_all >= 0 && own == 0 && assoc->jobs_used >= assoc->jobs_all;
    if (is_full)
        most = 0;
    if (most < 0 || (out->gpus_max >= 0 && most >= out->gpus_max))
        return;
    out->gpus_max = most < 0 ? 0 : most;
    if (is_full)
        snprintf(slurm->ahead->why, sizeof slurm->ahead->why,
                 "Slurm lets %.60s run %d jobs at once, and all run", whose,
                 assoc->jobs_all);
    else
        snprintf(slurm->ahead->why, sizeof slurm->ahead->why,
                 "Slurm's limits of %.60s leave it %d GPU%s", whose,
                 out->gpus_max, out->gpus_max == 1 ? "" : "s");
    out->why = slurm->ahead->why;
}

/* Limits of the user's association and of the accounts above it. */
static void add_assocs(struct slurm *slurm, const char *user,
                       const char *account, int own, struct slurm_bounds *out)
{
    enum { DEEPEST = 16 };
    const struct slurm_assoc *at = assoc_of(slurm, user, account);
    char above[SLURM_RULE_NAME];
    if (at == NULL)
        return; /* Slurm says so itself */
    add_limits(slurm, at, own, out);
    str_copy(above, sizeof above, at->account);
    for (int i = 0; i < DEEPEST && above[0] != '\0'; i++) {
        at = assoc_of(slurm, "", above);
        if (at == NULL)
            return;
        add_limits(slurm, at, own, out);
        str_copy(above, sizeof above, at->parent);
    }
}

/* The user and the account of a job; NULL: Slurm has no such association. */
static const struct slurm_assoc *assoc_of_job(const struct slurm *slurm,
                                              const struct firn_launch *launch)
{
    char account[SLURM_RULE_NAME];
    bool is_users = slurm_has_users(slurm) && launch->user != NULL;
    option_of(slurm, launch, "--account=", account);
    return assoc_of(slurm, is_users ? launch->user : slurm->own_user, account);
}

static void add_qos(struct slurm *slurm, const struct firn_launch *launch,
                    int own, struct slurm_bounds *out)
{
    struct slurm_qos_limits limits;
    char named[SLURM_RULE_NAME];
    const struct slurm_assoc *its = assoc_of_job(slurm, launch);
    if (its == NULL)
        return;
    option_of(slurm, launch, "--qos=", named);
    slurm_qos_limits(slurm, named, its, &limits);
    for (size_t i = 0; i < limits.n; i++)
        add_limits(slurm, &limits.at[i], own, out);
}

static double shorter_s(double limit_s, int minutes)
{
    return minutes > 0 && (limit_s <= 0 || 60.0 * minutes < limit_s)
               ? 60.0 * minutes
               : limit_s;
}

double slurm_ahead_wall_s(const struct slurm *slurm,
                          const struct firn_launch *launch)
{
    struct slurm_qos_limits limits;
    char named[SLURM_RULE_NAME];
    const struct slurm_assoc *its = assoc_of_job(slurm, launch);
    if (its == NULL)
        return 0;
    option_of(slurm, launch, "--qos=", named);
    slurm_qos_limits(slurm, named, its, &limits);
    double wall_s = shorter_s(0, its->wall_min);
    for (size_t i = 0; i < limits.n; i++)
        wall_s = shorter_s(wall_s, limits.at[i].wall_min);
    return wall_s;
}

/* GPUs of the job that run, as Slurm has them. */
static int own_gpus(const struct slurm *slurm, firn_job_id id)
{
    const struct slurmjob *job = slurm_find(slurm, id);
    bool runs = job != NULL && job->is_seen &&
                (job->state == SLURM_RUNNING || job->state == SLURM_BOOTING ||
                 job->state == SLURM_COMPLETING);
    return runs ? job->base.held.ngpus : 0;
}

static void add_bookings(struct slurm *slurm, const struct firn_launch *launch,
                         struct slurm_bounds *out)
{
    char named[SLURM_RULE_NAME];
    double now_s = slurm_now_s(slurm), limit_s = slurm->limit_s;
    double wall_s = slurm_ahead_wall_s(slurm, launch);
    if (wall_s > 0 && (limit_s <= 0 || wall_s < limit_s))
        limit_s = wall_s;
    if (launch->attempt_limit_s > 0 &&
        (limit_s <= 0 || launch->attempt_limit_s < limit_s))
        limit_s = launch->attempt_limit_s;
    double end_s = limit_s > 0 ? now_s + limit_s : INFINITY;
    option_of(slurm, launch, "--reservation=", named);
    for (size_t b = 0; b < slurm->ahead->bookings.n; b++) {
        const struct slurm_booking *at = &slurm->ahead->bookings.at[b];
        if (at->start_s >= end_s || at->end_s <= now_s || at->is_automatic ||
            strcmp(at->name, named) == 0)
            continue;
        for (size_t i = 0; i < slurm->hosts.n; i++)
            if (slurm_hosts_have(at->nodes, slurm->hosts.at[i].name)) {
                slurm->barred.at[i / 64] |= (uint64_t)1 << i % 64;
                out->has_nodes = true;
            }
        if (out->has_nodes && out->why == NULL) {
            snprintf(slurm->ahead->why, sizeof slurm->ahead->why,
                     "reservation %s begins on its nodes before the job's time "
                     "limit is over",
                     at->name);
            out->why = slurm->ahead->why;
        }
    }
}

/* Fewer GPUs than the job needs are left. */
static bool is_short(struct slurm *slurm, int needed,
                     const struct slurm_bounds *bounds)
{
    size_t n = strlen(slurm->ahead->why);
    needed = needed > 1 ? needed : 1;
    if (bounds->gpus_max < 0 || bounds->gpus_max >= needed)
        return false;
    if (bounds->gpus_max > 0)
        snprintf(slurm->ahead->why + n, sizeof slurm->ahead->why - n,
                 ", and it needs %d", needed);
    return true;
}

void slurm_ahead_bounds(struct slurm *slurm, firn_job_id id,
                        const struct firn_launch *launch,
                        struct slurm_bounds *out)
{
    char account[SLURM_RULE_NAME];
    *out = (struct slurm_bounds){.gpus_max = -1};
    if (launch->inbox != NULL && launch->inbox[0] != '\0')
        return; /* Slurm has it already */
    bool is_users = slurm_has_users(slurm) && launch->user != NULL;
    const char *user = is_users ? launch->user : slurm->own_user;
    int own = own_gpus(slurm, id);
    option_of(slurm, launch, "--account=", account);
    const struct slurm_assoc *its = assoc_of(slurm, user, account);
    if (account[0] == '\0' && its != NULL)
        str_copy(account, sizeof account, its->account);
    add_assocs(slurm, user, account, own, out);
    add_qos(slurm, launch, own, out);
    bool has_few = is_short(slurm, launch->gpus_min, out);
    add_bookings(slurm, launch, out);
    bool is_allowed = slurm_limits_allow(slurm, account);
    if (!is_allowed) {
        snprintf(slurm->ahead->why, sizeof slurm->ahead->why,
                 "partition %.60s does not allow account %.60s",
                 slurm->partition, account);
        out->why = slurm->ahead->why;
    }
    if ((is_allowed && !has_few) || own > 0)
        return; /* (2) */
    out->until_s = slurm_now_s(slurm) + again_s;
}
