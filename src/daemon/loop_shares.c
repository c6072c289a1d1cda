/* loop_shares.c - users and projects in firnd: what they used, what they may.
 *
 * The file of --shares is read at the start and again after SIGHUP; its limits
 * then hold for jobs that run, too, from the next decision on. What each
 * account used is not kept: it is summed again from the attempts on disk
 * (store_usage.c), so that a killed firnd loses nothing and charges nothing
 * twice. GPUs that jobs hold from then on are charged by core's state and, of
 * jobs that cannot be stopped and run outside of the round, by desk.c.
 *
 * (1) A file that cannot be read changes nothing. (2) Windows of quotas begin
 * on Mondays, 0:00 UTC, and each `window` after.
 *
 * Cost: a walk over the attempts of ten half-lives at the start.
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/log.h"
#include "daemon/diskuse.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* 1970-01-05 was a Monday. */
static const double MONDAY_S = 4 * 86400, HALF_LIVES = 10;

/* --- the file ------------------------------------------------------------- */

static const char *project_of(const struct accounts *accounts, const char *user,
                              const char *project)
{
    return accounts_project(accounts, user, project != NULL ? project : "");
}

struct charging {
    struct accounts *accounts;
    double now_s;
};

static void charge(void *arg, const struct store_usage *usage)
{
    const struct charging *c = arg;
    double span_s = usage->ended_s - usage->started_s;
    double until_s = fmin(usage->ended_s, c->now_s);
    if (!(span_s > 0))
        return;
    accounts_charge(
        c->accounts,
        accounts_member(c->accounts, usage->user,
                        project_of(c->accounts, usage->user, usage->project)),
        usage->gpu_s / span_s, usage->started_s, until_s, c->now_s);
}

enum firn_status loop_shares_open(struct loop *loop, struct firn_error *err)
{
    const char *path = loop->config->shares;
    struct charging c = {.now_s = dock_now_s(&loop->dock)};
    if (path == NULL)
        return FIRN_OK;
    FIRN_TRY(accounts_load(&c.accounts, path, err));
    c.accounts->begins_s = MONDAY_S; /* (2) */
    loop->desk.accounts = c.accounts;
    accounts_settle(c.accounts, c.now_s);
    double since_s = c.now_s - fmax(HALF_LIVES * c.accounts->half_life_s,
                                    c.accounts->window_s);
    return store_each_usage(loop->store, since_s, c.now_s, charge, &c, err);
}

enum firn_status loop_shares_reload(struct loop *loop,
                                    const struct config *config,
                                    struct firn_error *err)
{
    struct accounts *fresh = NULL;
    if (config->shares == NULL || loop->desk.accounts == NULL) {
        if ((config->shares == NULL) != (loop->desk.accounts == NULL))
            log_warn("'shares' cannot be set or removed while firnd runs; it "
                     "is taken at the next start");
        return FIRN_OK;
    }
    FIRN_TRY(accounts_load(&fresh, config->shares, err)); /* (1) */
    accounts_settle(loop->desk.accounts, dock_now_s(&loop->dock));
    accounts_update(loop->desk.accounts, fresh);
    accounts_free(fresh);
    round_ask(loop->desk.round);
    return FIRN_OK;
}

/* --- a submit ------------------------------------------------------------- */

/* Is it a job of this user or project? */
static bool is_of(const struct loop *loop, const struct account *account,
                  const struct live_job *job)
{
    const char *name =
        account->kind == ACCOUNT_USER
            ? job->ask.user
            : project_of(loop->desk.accounts, job->ask.user, job->ask.project);
    return strcmp(name, account->name) == 0;
}

static enum firn_status check_queue(const struct loop *loop, int at,
                                    struct firn_error *err)
{
    const struct account *account = &loop->desk.accounts->list.at[at];
    bool is_user = account->kind == ACCOUNT_USER;
    if (account->limits.queued == 0)
        return FIRN_OK;
    int n = 0;
    for (size_t i = 0; i < book_count(loop->book); i++) {
        const struct live_job *job = book_at(loop->book, i);
        n += !live_state_is_over(job->state) && is_of(loop, account, job);
    }
    if (n < account->limits.queued)
        return FIRN_OK;
    return firn_fail(err, FIRN_ELIMIT,
                     "over quota: %s %.60s has %d unfinished jobs, of %d: "
                     "submit again when some have ended",
                     is_user ? "user" : "project", account->name, n,
                     account->limits.queued);
}

/* Files of all jobs of the account that firnd keeps. */
static enum firn_status check_disk(struct loop *loop, int at,
                                   struct firn_error *err)
{
    const struct account *account = &loop->desk.accounts->list.at[at];
    bool is_user = account->kind == ACCOUNT_USER;
    double gib = 0;
    if (!(account->limits.disk_gib > 0))
        return FIRN_OK;
    for (size_t i = 0; i < book_count(loop->book); i++) {
        const struct live_job *job = book_at(loop->book, i);
        struct firn_buf path = {0};
        if (!is_of(loop, account, job))
            continue;
        gib += diskuse_gib(dock_job_folder(&loop->dock, job->id, &path));
        if (job->ask.ckpt_dir[0] != '\0')
            gib += diskuse_gib(job->ask.ckpt_dir);
        buf_release(&path);
    }
    if (gib <= account->limits.disk_gib)
        return FIRN_OK;
    return firn_fail(err, FIRN_ELIMIT,
                     "over quota: the jobs of %s %.60s have %.1f GiB of logs "
                     "and checkpoints, of %.1f: remove some",
                     is_user ? "user" : "project", account->name, gib,
                     account->limits.disk_gib);
}

enum firn_status loop_admits(struct loop *loop, struct live_ask *ask,
                             struct firn_error *err)
{
    struct accounts *accounts = loop->desk.accounts;
    if (ask->deadline_s > 0 &&
        (loop->desk.policy->does & FIRN_DOES_PREEMPT) == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "policy %s does not plan for deadlines, since it "
                         "stops no running job: submit without a deadline, or "
                         "see 'firn policies' for policies that do",
                         loop->desk.policy->name);
    if (accounts == NULL && ask->project[0] != '\0')
        return firn_fail(err, FIRN_EINVAL,
                         "there are no projects: this firnd runs without "
                         "--shares");
    if (accounts == NULL)
        return FIRN_OK;
    const char *project = project_of(accounts, ask->user, ask->project);
    FIRN_TRY(accounts_admits(accounts, ask->user, project, err));
    int member = accounts_member(accounts, ask->user, project);
    int user = accounts->list.at[member].user;
    int of = accounts->list.at[member].project;
    FIRN_TRY(check_queue(loop, user, err));
    FIRN_TRY(check_queue(loop, of, err));
    FIRN_TRY(check_disk(loop, user, err));
    FIRN_TRY(check_disk(loop, of, err));
    if (ask->project[0] == '\0') {
        mem_free(ask->project);
        ask->project = mem_strdup(project);
    }
    return FIRN_OK;
}

/* --- for people ----------------------------------------------------------- */

static void add_account(const struct accounts *accounts,
                        const struct account *account, double all_gpus,
                        struct firn_buf *json)
{
    static const char *const kinds[] = {"user", "project", "member"};
    const struct account_limits *limits = &account->limits;
    double past = accounts_past_gpus(accounts, account);
    jsonbuf_open(json, NULL, '{');
    jsonbuf_text(json, "kind", kinds[account->kind]);
    jsonbuf_text(json, "name", account->name);
    if (account->kind == ACCOUNT_MEMBER)
        jsonbuf_text(json, "project", accounts->list.at[account->project].name);
    jsonbuf_double(json, "share", limits->share);
    jsonbuf_double(json, "gpus", account->held + account->outside);
    jsonbuf_double(json, "past_gpus", past);
    jsonbuf_double(json, "part", all_gpus > 0 ? past / all_gpus : 0);
    jsonbuf_double(json, "window_gpu_hours", account->window_gpu_s / 3600);
    if (limits->gpus > 0)
        jsonbuf_int(json, "quota_gpus", limits->gpus);
    if (limits->gpu_hours > 0)
        jsonbuf_double(json, "quota_gpu_hours", limits->gpu_hours);
    if (limits->queued > 0)
        jsonbuf_int(json, "quota_queued", limits->queued);
    if (limits->disk_gib > 0)
        jsonbuf_double(json, "quota_disk_gib", limits->disk_gib);
    jsonbuf_bool(json, "borrow", limits->borrows);
    jsonbuf_close(json, '}');
}

void loop_shares_json(struct loop *loop, struct firn_buf *json)
{
    struct accounts *accounts = loop->desk.accounts;
    double now_s = dock_now_s(&loop->dock), all_gpus = 0;
    jsonbuf_open(json, NULL, '{');
    jsonbuf_bool(json, "enabled", accounts != NULL);
    if (accounts != NULL) {
        accounts_settle(accounts, now_s);
        jsonbuf_double(json, "half_life_s", accounts->half_life_s);
        jsonbuf_double(json, "window_s", accounts->window_s);
        jsonbuf_double(json, "window_ends_s",
                       accounts_window_end_s(accounts, now_s));
    }
    jsonbuf_open(json, "accounts", '[');
    for (size_t i = 0; accounts != NULL && i < accounts->list.n; i++)
        if (accounts->list.at[i].kind == ACCOUNT_PROJECT)
            all_gpus += accounts_past_gpus(accounts, &accounts->list.at[i]);
    for (size_t i = 0; accounts != NULL && i < accounts->list.n; i++)
        add_account(accounts, &accounts->list.at[i], all_gpus, json);
    jsonbuf_close(json, ']');
    jsonbuf_close(json, '}');
}
