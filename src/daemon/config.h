/* config.h - what an operator says to firnd: flags over firn.yaml over
 * defaults.
 *
 *     engine: local             # who runs jobs
 *     gpus: 1x4:v100@16           # GPUs declared by hand; else the driver's
 *     policy: icefrog
 *     state: /var/lib/firn      # firn.db, and a folder for each job
 *     socket: /run/firn/firn.sock
 *     listen: 127.0.0.1:7070    # TCP, only with a token
 *     token-file: /etc/firn/token
 *     callback: http://head:7070  # where trainers on other hosts report
 *     log-mib: 64               # kept of a job's output, the newest
 *     keep-jobs: 10000          # folders of finished jobs, the newest
 *     keep-jobs-days: 30        # after that their folders are removed
 *     keep-rows: 100000         # finished jobs in the database, the newest
 *     keep-events-days: 30      # events and reports
 *     settings: [icefrog.interval=60, local.cgroup=off]
 *     allow-root: no            # yes: start although the user is root
 *     jobs-max: 200000          # jobs that wait or run; more are refused
 *     user-jobs-max: 0          # of one user; 0: no limit of its own
 *
 * Each key is a flag too (--token-file FILE); `settings` is --set, once for
 * each; --allow-root needs no value. Nothing has to be said: state then is
 * $XDG_STATE_HOME/firn or
 * ~/.local/state/firn, the socket $XDG_RUNTIME_DIR/firn.sock or firn.sock in
 * the state folder, and trainers report to `listen` where the engine runs them
 * on other hosts, else to the socket. Unknown keys, keys given twice and empty
 * values are errors with file and line.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H
#include "base/arena.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How much is kept; 0 in each: all of it. Filled by config_finish(). */
struct config_keep {
    int64_t log_mib, jobs, jobs_days, rows, events_days;
};

/* Texts lie in the arena; NULL: not said. */
struct config {
    struct arena text;
    const char *file; /* --config; read by config_finish() */
    const char *engine, *policy, *state, *socket, *listen, *token_file;
    const char *callback;
    const char *gpus;
    const char *allow_root;               /* "yes" or "no" */
    const char *jobs_max, *user_jobs_max; /* whole numbers */
    const char *log_mib, *keep_jobs, *keep_jobs_days, *keep_rows;
    const char *keep_events_days;
    struct config_keep keep;
    const char **settings; /* "owner.option=value" */
    size_t nsettings, settings_cap;
    bool wants_help, wants_version;
    bool is_usual; /* no flag or file names the state directory */
};

/* A line for each flag, for --help. */
extern const char config_help[];

/* Takes the flags in, argv[1] to argv[argc - 1]. FIRN_EINVAL names one that is
 * wrong. Zeroed before; release in any case. */
enum firn_status config_flags(struct config *config, int argc,
                              char *const *argv, struct firn_error *err);
/* What a file says and no flag has said. `where` names it. */
enum firn_status config_text(struct config *config, struct firn_bytes text,
                             const char *where, struct firn_error *err);
/* Reads the file, if one is named, then fills in defaults. FIRN_EINVAL also for
 * settings that contradict each other. */
enum firn_status config_finish(struct config *config, struct firn_error *err);
/* Values that are one of a few words: FIRN_EINVAL names a wrong one. Called by
 * config_finish(). */
enum firn_status config_check_values(const struct config *config,
                                     struct firn_error *err);
/* How many jobs may wait or run, in all and of one user; 0: any number. After
 * config_finish(). */
void config_job_limits(const struct config *config, size_t *jobs_max,
                       size_t *user_jobs_max);
/* May firnd run as user `uid`? FIRN_EINVAL for root (0) that `allow-root` does
 * not allow: jobs run as firnd's own user, so that every submitted command
 * would run as root. */
enum firn_status config_check_user(const struct config *config, uid_t uid,
                                   struct firn_error *err);
/* The numbers of `keep`, from the texts or by default: config_keep.c. */
enum firn_status config_keep_read(struct config *config,
                                  struct firn_error *err);
void config_release(struct config *config);
/* The folders above the usual place of the state, which a new user does not
 * have; whether they could be made is seen when it is opened. Above a
 * directory that a flag or file names nothing is made. */
void config_make_parents(const struct config *config);

/* Where trainers report, appended: `callback`, or by `listen`, or over the
 * socket. `port` is what is listened on. FIRN_EINVAL when they are on other
 * hosts (`is_remote`) and nothing listens there. */
enum firn_status config_url(const struct config *config, bool is_remote,
                            int port, struct firn_buf *out,
                            struct firn_error *err);

/* The operator's token: the first line of a file that only its owner can read.
 * In the arena. */
enum firn_status config_token(struct config *config, const char **token,
                              struct firn_error *err);

#endif
