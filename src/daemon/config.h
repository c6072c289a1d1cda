/* config.h - options of firnd: command line over firn.yaml over defaults.
 *
 *     engine: local             # backend: local or slurm
 *     gpus: 1x4:v100@16         # GPUs of the local backend; else the driver's
 *     policy: firn              # scheduling policy
 *     state: /var/lib/firn      # state directory
 *     socket: /run/firn/firn.sock
 *     listen: 127.0.0.1:7070    # TCP; needs token-file
 *     token-file: /etc/firn/token
 *     socket-group: lab         # group that may use the socket
 *     operators: ann,@admins    # users with all rights; @ names a group
 *     users: '@lab'             # users that submit jobs and change their own
 *     viewers: '@visitors'        # users that see the queue
 *     shares: /etc/firn/shares.yaml  # shares and quotas: docs/shares.md
 *     idle-after: 30m           # jobs that use no GPU for so long are reported
 *     launcher: /run/firn-launch/sock  # firn-launch: jobs run as their users
 *     tls-cert: /etc/firn/cert.pem  # certificate chain and key: TLS on listen
 *     tls-key: /etc/firn/key.pem
 *     listen-plain: no          # yes: listen beyond this host without TLS
 *     notify-command: /etc/firn/notify  # tells users: daemon/announce.h
 *     callback: http://head:7070  # firnd's URL for trainers on other hosts
 *     log-mib: 64               # MiB of output kept per job
 *     keep-jobs: 10000          # finished jobs whose logs are kept
 *     keep-jobs-days: 30        # days that logs of finished jobs are kept
 *     keep-rows: 100000         # finished jobs kept in the database
 *     keep-events-days: 30      # days that events and reports are kept
 *     settings: [icefrog.interval=60, local.cgroup=off]
 *     allow-root: no            # yes: start although the user is root
 *     jobs-max: 200000          # queued and running jobs
 *     user-jobs-max: 0          # the same per user; 0: no limit
 *
 * Each key is also an option (--token-file FILE); `settings` is --set, which
 * may be repeated; --allow-root needs no value. Every key has a default: state
 * is $XDG_STATE_HOME/firn or ~/.local/state/firn, socket is
 * $XDG_RUNTIME_DIR/firn.sock or firn.sock in the state directory; trainers
 * report to `listen` if the backend runs them on other hosts, else to the
 * socket. Unknown keys, duplicate keys and empty values are errors with file
 * and line.
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

/* Limits of what is kept; 0: no limit. Filled by config_finish(). */
struct config_keep {
    int64_t log_mib, jobs, jobs_days, rows, events_days;
};

/* Texts are in the arena; NULL: not given. */
struct config {
    struct arena text;
    const char *file; /* --config; read by config_finish() */
    const char *engine, *policy, *state, *socket, *listen, *token_file;
    const char *callback;
    const char *socket_group;
    const char *operators, *users, *viewers; /* see daemon/access.h */
    const char *tls_cert, *tls_key;
    const char *listen_plain; /* "yes" or "no" */
    const char *shares;       /* file of users and projects; NULL: none */
    const char *idle_after;   /* default of idle.after; NULL: none */
    const char *launcher;     /* socket of firn-launch; NULL: none */
    const char *gpus;
    const char *notify_command;           /* path; NULL: none */
    const char *allow_root;               /* "yes" or "no" */
    const char *jobs_max, *user_jobs_max; /* whole numbers */
    const char *log_mib, *keep_jobs, *keep_jobs_days, *keep_rows;
    const char *keep_events_days;
    struct config_keep keep;
    const char **settings; /* "owner.option=value" */
    size_t nsettings, settings_cap;
    size_t nlive; /* number of firnd's own settings, which are the first */
    bool wants_help, wants_version;
    bool wants_check; /* --check-config */
    bool is_usual;    /* `state` is the default directory */
};

/* The help page. */
extern const char config_help[];

/* Parses argv[1] to argv[argc - 1]. FIRN_EINVAL names a wrong option. `config`
 * is zeroed before; release it in any case. */
enum firn_status config_flags(struct config *config, int argc,
                              char *const *argv, struct firn_error *err);
/* Reads a file; options of the command line stay. `where` names it in errors.
 */
enum firn_status config_text(struct config *config, struct firn_bytes text,
                             const char *where, struct firn_error *err);
/* Reads the file of --config, if given, then sets the defaults. FIRN_EINVAL
 * also for options that contradict each other. */
enum firn_status config_finish(struct config *config, struct firn_error *err);
/* Checks values; FIRN_EINVAL names a wrong one. Called by config_finish(). */
enum firn_status config_check_values(const struct config *config,
                                     struct firn_error *err);
/* Limits of queued and running jobs, in all and per user; 0: none. Call it
 * after config_finish(). */
void config_job_limits(const struct config *config, size_t *jobs_max,
                       size_t *user_jobs_max);
/* Looks for mistakes that firnd would find when it starts: names of policy,
 * engine, group and settings, the files of token and TLS. Changes nothing on
 * disk. Call it after config_finish(). */
enum firn_status config_verify(struct config *config, struct firn_error *err);
/* May firnd run as user `uid`? FIRN_EINVAL for root (0) that `allow-root` does
 * not allow: jobs run as firnd's own user, so that every submitted command
 * would run as root. */
enum firn_status config_check_user(const struct config *config, uid_t uid,
                                   struct firn_error *err);
/* Sets `keep` from the texts, else to the defaults. */
enum firn_status config_keep_read(struct config *config,
                                  struct firn_error *err);
/* Puts firnd's own settings before the others; called by config_finish(). */
void config_live(struct config *config);
void config_release(struct config *config);
/* Creates the directories above the default state directory, which a new user
 * does not have; failures show when the state is opened. Creates none above a
 * directory given by --state. */
void config_make_parents(const struct config *config);

/* Appends the URL to which trainers report: `callback`, else from `listen`,
 * else the socket. `port` is the port that is listened on. FIRN_EINVAL if
 * trainers run on other hosts (`is_remote`) without `listen`. */
enum firn_status config_url(const struct config *config, bool is_remote,
                            int port, struct firn_buf *out,
                            struct firn_error *err);

/* Reads the texts of the certificate and its key into the arena; NULL: there is
 * none. The key file must be private, as the token file must. */
enum firn_status config_tls(struct config *config, const char **certificate,
                            const char **key, struct firn_error *err);

/* Appends the address of firnd for a browser; nothing without `listen`. */
void config_board_url(const struct config *config, int port,
                      struct firn_buf *out);

/* Reads the operator's token, the first line of a file that only its owner can
 * read, into the arena. */
enum firn_status config_token(struct config *config, const char **token,
                              struct firn_error *err);

#endif
