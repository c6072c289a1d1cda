/* accounts.c - charging GPU-seconds to users, projects and members.
 *
 * An account holds h GPUs from one change to the next. Over dt seconds its
 * decayed sum U becomes
 *
 *     U 2^(-dt/H) + h (H / ln 2) (1 - 2^(-dt/H)),     H = half_life_s
 *
 * which is exact, so it does not matter how often the sums are brought up to
 * date. This is the usage of Slurm's multifactor plugin (PriorityDecayHalfLife)
 * in closed form instead of steps of PriorityCalcPeriod.
 *
 * Invariants:
 * (1) the totals of the members of a project add up to that of the project, and
 *     those of a user's members to that of the user;
 * (2) a sum is brought up to date before the number of GPUs changes;
 * (3) accounts are numbered in the order of the file and then of arrival, so
 *     ties are broken alike in every run.
 *
 * Cost: O(accounts) to find one by name, O(1) to charge.
 */
#include "core/accounts.h"
#include "base/fmath.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LN2 = 0.69314718055994530942;
static const double DAY_S = 86400;

struct accounts *accounts_new(void)
{
    struct accounts *accounts = mem_new(1, sizeof *accounts);
    accounts->half_life_s = accounts->window_s = 7 * DAY_S;
    accounts->slice_s = 3600;
    accounts->past = 1;
    accounts->anyone = (struct account_limits){.share = 1, .borrows = true};
    return accounts;
}

void accounts_free(struct accounts *accounts)
{
    if (accounts == NULL)
        return;
    vec_release(&accounts->list);
    vec_release(&accounts->members);
    vec_release(&accounts->closed);
    arena_release(&accounts->text);
    mem_free(accounts);
}

struct accounts *accounts_copy(const struct accounts *from)
{
    struct accounts *to = accounts_new();
    to->half_life_s = from->half_life_s;
    to->window_s = from->window_s;
    to->slice_s = from->slice_s;
    to->past = from->past;
    to->begins_s = from->begins_s;
    to->anyone = from->anyone;
    for (size_t i = 0; i < from->list.n; i++) {
        struct account account = from->list.at[i];
        account.name = arena_strdup(&to->text, account.name);
        account.held = 0;
        vec_add(&to->list, account);
    }
    for (size_t i = 0; i < from->members.n; i++)
        vec_add(&to->members,
                (const char *)arena_strdup(&to->text, from->members.at[i]));
    for (size_t i = 0; i < from->closed.n; i++)
        vec_add(&to->closed,
                (const char *)arena_strdup(&to->text, from->closed.at[i]));
    return to;
}

/* --- names ---------------------------------------------------------------- */

static int find(const struct accounts *accounts, enum account_kind kind,
                const char *name, int project)
{
    for (size_t i = 0; i < accounts->list.n; i++) {
        const struct account *account = &accounts->list.at[i];
        if (account->kind == kind && strcmp(account->name, name) == 0 &&
            (kind != ACCOUNT_MEMBER || account->project == project))
            return (int)i;
    }
    return -1;
}

static int make(struct accounts *accounts, struct account account)
{
    account.name = arena_strdup(&accounts->text, account.name);
    account.window_s = -INFINITY;
    vec_add(&accounts->list, account);
    return (int)accounts->list.n - 1;
}

int accounts_user(struct accounts *accounts, const char *user)
{
    int at = find(accounts, ACCOUNT_USER, user, -1);
    return at >= 0
               ? at
               : make(accounts, (struct account){.kind = ACCOUNT_USER,
                                                 .name = user,
                                                 .user = -1,
                                                 .project = -1,
                                                 .limits = accounts->anyone});
}

int accounts_project_of(struct accounts *accounts, const char *project)
{
    static const struct account_limits open = {.share = 1, .borrows = true};
    int at = find(accounts, ACCOUNT_PROJECT, project, -1);
    return at >= 0 ? at
                   : make(accounts, (struct account){.kind = ACCOUNT_PROJECT,
                                                     .name = project,
                                                     .user = -1,
                                                     .project = -1,
                                                     .limits = open});
}

int accounts_member(struct accounts *accounts, const char *user,
                    const char *project)
{
    int of = accounts_project_of(accounts, project);
    int at = find(accounts, ACCOUNT_MEMBER, user, of);
    if (at >= 0)
        return at;
    struct account member = {.kind = ACCOUNT_MEMBER,
                             .name = user,
                             .user = accounts_user(accounts, user),
                             .project = of};
    member.limits = accounts->list.at[member.user].limits;
    return make(accounts, member);
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* "user\nproject" with this user and project. */
static bool is_pair(const char *pair, const char *user, const char *project)
{
    size_t n = strlen(user);
    return strncmp(pair, user, n) == 0 && pair[n] == '\n' &&
           (project == NULL || strcmp(pair + n + 1, project) == 0);
}

const char *accounts_project(const struct accounts *accounts, const char *user,
                             const char *project)
{
    if (project[0] != '\0')
        return project;
    for (size_t i = 0; i < accounts->members.n; i++)
        if (is_pair(accounts->members.at[i], user, NULL))
            return accounts->members.at[i] + strlen(user) + 1;
    int at = find(accounts, ACCOUNT_PROJECT, user, -1);
    return at >= 0 ? accounts->list.at[at].name : "default";
}

enum firn_status accounts_admits(const struct accounts *accounts,
                                 const char *user, const char *project,
                                 struct firn_error *err)
{
    char has[200] = "";
    size_t n = 0;
    bool is_closed = false;
    for (size_t i = 0; i < accounts->closed.n; i++)
        is_closed |= strcmp(accounts->closed.at[i], project) == 0;
    for (size_t i = 0; i < accounts->members.n; i++) {
        if (is_pair(accounts->members.at[i], user, project))
            return FIRN_OK;
        if (is_pair(accounts->members.at[i], user, NULL) && n < sizeof has) {
            int more =
                snprintf(has + n, sizeof has - n, "%s%s", n > 0 ? ", " : "",
                         accounts->members.at[i] + strlen(user) + 1);
            n += more > 0 ? (size_t)more : 0;
        }
    }
    bool is_there = find(accounts, ACCOUNT_PROJECT, project, -1) >= 0 ||
                    strcmp(project, "default") == 0;
    if (is_there && !is_closed)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     is_there ? "user %.60s is not a member of project %.60s "
                                "(member of: %s)"
                              : "user %.60s names project %.60s, which the "
                                "operator has not set up (member of: %s)",
                     user, project, has[0] != '\0' ? has : "none");
}

int accounts_of(struct accounts *accounts, const struct firn_job_spec *spec)
{
    const char *user = or_empty(spec->user);
    if (user[0] == '\0')
        user = or_empty(spec->group);
    return accounts_member(
        accounts, user,
        accounts_project(accounts, user, or_empty(spec->project)));
}

void accounts_update(struct accounts *accounts, const struct accounts *from)
{
    for (size_t i = 0; i < accounts->list.n; i++) /* the same mean GPUs */
        accounts->list.at[i].used_gpu_s *=
            from->half_life_s / accounts->half_life_s;
    accounts->half_life_s = from->half_life_s;
    accounts->window_s = from->window_s;
    accounts->slice_s = from->slice_s;
    accounts->past = from->past;
    accounts->anyone = from->anyone;
    for (size_t i = 0; i < from->list.n; i++) {
        const struct account *account = &from->list.at[i];
        int at = account->kind == ACCOUNT_USER
                     ? accounts_user(accounts, account->name)
                     : accounts_project_of(accounts, account->name);
        accounts->list.at[at].limits = account->limits;
    }
    for (size_t i = 0; i < accounts->list.n; i++) {
        struct account *account = &accounts->list.at[i];
        static const struct account_limits open = {.share = 1, .borrows = true};
        if (account->kind != ACCOUNT_MEMBER &&
            find(from, account->kind, account->name, -1) < 0)
            account->limits =
                account->kind == ACCOUNT_USER ? from->anyone : open;
    }
    for (size_t i = 0; i < accounts->list.n; i++)
        if (accounts->list.at[i].kind == ACCOUNT_MEMBER)
            accounts->list.at[i].limits =
                accounts->list.at[accounts->list.at[i].user].limits;
    accounts->members.n = accounts->closed.n = 0;
    for (size_t i = 0; i < from->members.n; i++)
        vec_add(&accounts->members, (const char *)arena_strdup(
                                        &accounts->text, from->members.at[i]));
    for (size_t i = 0; i < from->closed.n; i++)
        vec_add(&accounts->closed, (const char *)arena_strdup(
                                       &accounts->text, from->closed.at[i]));
}

/* --- charging ------------------------------------------------------------- */

double accounts_weight(const struct firn_alloc *alloc)
{
    return alloc->is_shared ? 0.5 * alloc->ngpus : alloc->ngpus;
}

static double window_begin_s(const struct accounts *accounts, double now_s)
{
    double n = floor((now_s - accounts->begins_s) / accounts->window_s);
    return accounts->begins_s + n * accounts->window_s;
}

double accounts_window_end_s(const struct accounts *accounts, double now_s)
{
    double end_s = window_begin_s(accounts, now_s) + accounts->window_s;
    return end_s > now_s ? end_s : end_s + accounts->window_s;
}

/* 2^(-dt/H) */
static double decay(const struct accounts *accounts, double dt_s)
{
    double x = LN2 * dt_s / accounts->half_life_s;
    return x < 700 ? fm_exp(-x) : 0;
}

static void settle(const struct accounts *accounts, struct account *account,
                   double now_s)
{
    double dt_s = now_s - account->at_s, begin_s;
    double gpus = account->held + account->outside;
    if (!(dt_s > 0))
        return;
    begin_s = window_begin_s(accounts, now_s);
    if (gpus != 0 || account->used_gpu_s != 0) {
        double left = decay(accounts, dt_s);
        account->used_gpu_s = account->used_gpu_s * left +
                              gpus * accounts->half_life_s / LN2 * (1 - left);
    }
    if (begin_s > account->window_s) {
        double from_s = begin_s > account->at_s ? begin_s : account->at_s;
        account->window_gpu_s = gpus * (now_s - from_s);
        account->window_s = begin_s;
    } else {
        account->window_gpu_s += gpus * dt_s;
    }
    account->total_gpu_s += gpus * dt_s;
    account->at_s = now_s;
}

/* The member, its user and its project. */
static void accounts_three(const struct accounts *accounts, int member,
                           struct account *out[3])
{
    struct account *list = accounts->list.at;
    out[0] = &list[member];
    out[1] = &list[list[member].user];
    out[2] = &list[list[member].project];
}

void accounts_hold(struct accounts *accounts, int member, double gpus,
                   double now_s)
{
    struct account *three[3];
    accounts_three(accounts, member, three);
    for (int i = 0; i < 3; i++) {
        settle(accounts, three[i], now_s); /* (2) */
        three[i]->held += gpus;
    }
}

void accounts_hold_outside(struct accounts *accounts, int member, double gpus,
                           double now_s)
{
    struct account *three[3];
    accounts_three(accounts, member, three);
    for (int i = 0; i < 3; i++) {
        settle(accounts, three[i], now_s);
        three[i]->outside += gpus;
    }
}

void accounts_charge(struct accounts *accounts, int member, double gpus,
                     double since_s, double until_s, double now_s)
{
    struct account *three[3];
    double begin_s = window_begin_s(accounts, now_s);
    double in_window_s = until_s - (since_s > begin_s ? since_s : begin_s);
    double sum =
        gpus * accounts->half_life_s / LN2 *
        (decay(accounts, now_s - until_s) - decay(accounts, now_s - since_s));
    if (!(until_s > since_s) || until_s > now_s)
        return;
    accounts_three(accounts, member, three);
    for (int i = 0; i < 3; i++) {
        settle(accounts, three[i], now_s);
        three[i]->window_s = begin_s;
        three[i]->used_gpu_s += sum;
        three[i]->window_gpu_s += in_window_s > 0 ? gpus * in_window_s : 0;
        three[i]->total_gpu_s += gpus * (until_s - since_s);
    }
}

void accounts_settle(struct accounts *accounts, double now_s)
{
    for (size_t i = 0; i < accounts->list.n; i++)
        settle(accounts, &accounts->list.at[i], now_s);
}

double accounts_past_gpus(const struct accounts *accounts,
                          const struct account *account)
{
    return account->used_gpu_s * LN2 / accounts->half_life_s;
}
