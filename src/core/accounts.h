/* accounts.h - users and projects: their shares, their quotas, what they used.
 *
 * A job belongs to a member: a user in a project. GPU-seconds that its job
 * holds are charged to three accounts at once: the user (over all projects),
 * the project, and the member. A GPU held as a half-share counts half.
 *
 * Two sums are kept of each account. `used_gpu_s` decays: GPU-seconds of
 * `half_life_s` ago count half, so used_gpu_s * ln 2 / half_life_s is a mean
 * number of GPUs over the recent past. `window_gpu_s` counts since the present
 * window began, for quotas in GPU-hours; windows follow each other without a
 * gap. The simulator, firnd and firnd's forecasts charge through these
 * functions, and core/gate.h decides by the sums.
 */
#ifndef CORE_ACCOUNTS_H
#define CORE_ACCOUNTS_H
#include "base/arena.h"
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/job.h>

/* What an account may have; a limit of 0: none is set. */
struct account_limits {
    double share;     /* weight beside the others, > 0 */
    int gpus;         /* GPUs held at one time */
    double gpu_hours; /* in a window */
    int queued;       /* unfinished jobs */
    double disk_gib;  /* of logs, checkpoints and files of its jobs */
    bool borrows;     /* may use idle GPUs beyond `gpus` and `gpu_hours` */
};

enum account_kind { ACCOUNT_USER, ACCOUNT_PROJECT, ACCOUNT_MEMBER };

struct account {
    enum account_kind kind;
    const char *name;  /* of the user or project; of a member: its user */
    int user, project; /* of a member: its accounts; else -1 */
    struct account_limits limits;
    double held;         /* GPUs, of jobs in rounds */
    double outside;      /* GPUs, of jobs that run outside of the round */
    double at_s;         /* the sums hold for this moment */
    double used_gpu_s;   /* decayed */
    double window_gpu_s; /* since window_s */
    double window_s;     /* the window began */
    double total_gpu_s;  /* since the account was made */
};

struct accounts {
    struct arena text;
    double half_life_s, window_s, slice_s;
    double past;     /* weight of the past beside the present; 0: none */
    double begins_s; /* some moment at which a window begins */
    VEC(struct account) list;
    VEC(const char *) members;    /* "user\nproject" that the file allows */
    VEC(const char *) closed;     /* projects that name their members */
    struct account_limits anyone; /* of users that the file does not name */
};

/* An empty list with the defaults. The caller frees it. */
struct accounts *accounts_new(void);
void accounts_free(struct accounts *accounts);
/* Reads a file (docs/shares.md). FIRN_EINVAL with file and line. */
enum firn_status accounts_load(struct accounts **out, const char *path,
                               struct firn_error *err);
enum firn_status accounts_parse(struct accounts **out, struct firn_bytes yaml,
                                const char *where, struct firn_error *err);
/* Takes the limits and times of `from`; sums and GPUs stay. */
void accounts_update(struct accounts *accounts, const struct accounts *from);
/* For a forecast: the same sums, with no GPU held by a round. */
struct accounts *accounts_copy(const struct accounts *from);

/* The project of a job: `project` if it is given, else the first in the file
 * that lists the user, else the project that has the user's name, else
 * "default". */
const char *accounts_project(const struct accounts *accounts, const char *user,
                             const char *project);
/* May the user submit to that project? FIRN_EINVAL with the projects that the
 * user has. */
enum firn_status accounts_admits(const struct accounts *accounts,
                                 const char *user, const char *project,
                                 struct firn_error *err);
/* The account of that user, project or member; made if there is none. */
int accounts_user(struct accounts *accounts, const char *user);
int accounts_project_of(struct accounts *accounts, const char *project);
int accounts_member(struct accounts *accounts, const char *user,
                    const char *project);
/* The member of a job. */
int accounts_of(struct accounts *accounts, const struct firn_job_spec *spec);

/* GPUs that an allocation counts for. */
double accounts_weight(const struct firn_alloc *alloc);
/* From `now_s` on the member's jobs hold that many GPUs more (or fewer). */
void accounts_hold(struct accounts *accounts, int member, double gpus,
                   double now_s);
void accounts_hold_outside(struct accounts *accounts, int member, double gpus,
                           double now_s);
/* GPUs that were held in the past; call it before all others. */
void accounts_charge(struct accounts *accounts, int member, double gpus,
                     double since_s, double until_s, double now_s);
/* Brings the sums of all accounts up to now. */
void accounts_settle(struct accounts *accounts, double now_s);
/* Mean GPUs of the recent past. */
double accounts_past_gpus(const struct accounts *accounts,
                          const struct account *account);
/* When the next window begins. */
double accounts_window_end_s(const struct accounts *accounts, double now_s);

#endif
