/* main.c - the program firnd: flags, a log on standard error, the loop.
 *
 * Started as `firnd --shepherd FOLDER` it is a shepherd instead: the process
 * that runs one start of one job and outlives the scheduler
 * (engine/shepherd.h). Exit status: 0 after a signal to stop, 2 for wrong
 * options, 1 for the rest.
 */
#include "base/fdlimit.h"
#include "base/log.h"
#include "daemon/config.h"
#include "daemon/loop.h"
#include "daemon/ownfolder.h"
#include "engine/launcher.h"
#include "engine/shepherd.h"
#include <errno.h>
#include <firn/policy.h>
#include <firn/version.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void to_stderr(void *arg, enum log_level level, const char *text)
{
    struct timespec now;
    struct tm parts;
    char when[32] = "";
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(stderr, "%s.%03ldZ %s%s\n", when, now.tv_nsec / 1000000,
            level == LOG_WARN ? "warning: " : "", text);
}

static int wrong(const struct firn_error *err, int status)
{
    fprintf(stderr, "firnd: %s\n", err->text);
    return status;
}

/* --check-config: 0, or the mistake and 2. */
static int check(struct config *config)
{
    struct firn_error err = {0};
    if (config_verify(config, &err) != FIRN_OK)
        return wrong(&err, 2);
    printf("%s: no mistake found; policy %s, engine %s, state %s, socket %s\n",
           config->file != NULL ? config->file : "the options", config->policy,
           config->engine, config->state, config->socket);
    return 0;
}

/* Users pass through the state directory and the folders of all jobs, which a
 * firnd without a launcher may have made for itself alone. */
static void open_to_users(const char *state)
{
    static const char *const folders[] = {"", "/jobs", "/control"};
    char path[4200];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", state, folders[i]);
        if (chmod(path, 0711) != 0 && errno != ENOENT)
            log_warn("users cannot reach their folders in '%s': %s", path,
                     strerror(errno));
    }
}

static int run(struct config *config, int argc, char *const *argv)
{
    struct firn_error err = {0};
    struct loop *loop = NULL;
    struct loop_setup setup = {.config = config, .argc = argc, .argv = argv};
    if (config_check_user(config, geteuid(), &err) != FIRN_OK ||
        config_token(config, &setup.token, &err) != FIRN_OK ||
        config_tls(config, &setup.certificate, &setup.key, &err) != FIRN_OK)
        return wrong(&err, 2);
    /* A policy in a shared object: its name is known to settings then. */
    if (strchr(config->policy, '/') != NULL &&
        firn_policy_load(config->policy, &err) == NULL)
        return wrong(&err, 2);
    if (geteuid() == 0)
        log_warn("firnd runs as root, as --allow-root allows: every job runs "
                 "as root");
    config_make_parents(config);
    if (config->launcher != NULL)
        umask(066); /* users pass through folders, and read no file of ours */
    if (ownfolder_make(config->state, OWNFOLDER_STATE, &err) != FIRN_OK)
        return wrong(&err, 2);
    if (config->launcher != NULL)
        open_to_users(config->state);
    enum firn_status status = loop_open(&loop, &setup, &err);
    if (status != FIRN_OK)
        return wrong(&err,
                     status == FIRN_EINVAL || status == FIRN_ENOENT ? 2 : 1);
    log_info("listens on %s", config->socket);
    status = loop_run(loop, &err);
    loop_close(loop);
    return status == FIRN_OK ? 0 : wrong(&err, 1);
}

int main(int argc, char **argv)
{
    struct config config = {0};
    struct firn_error err = {0};
    int status = 0;
    int code = shepherd_args(argc, argv);
    if (code < 0)
        code = launcher_args(argc, argv);
    if (code >= 0)
        return code;
    fdlimit_raise();
    signal(SIGPIPE, SIG_IGN);
    /* Until the loop handles it: a SIGHUP, which asks to read the configuration
     * again, must not end firnd while it starts. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    log_set_sink(to_stderr, NULL);
    bool is_wrong = config_flags(&config, argc, argv, &err) != FIRN_OK;
    bool is_asked = config.wants_help || config.wants_version;
    if (!is_wrong && !is_asked)
        is_wrong = config_finish(&config, &err) != FIRN_OK;
    if (is_wrong)
        status = wrong(&err, 2);
    else if (config.wants_help)
        fputs(config_help, stdout);
    else if (config.wants_version)
        printf("firnd %s\n", FIRN_VERSION);
    else if (config.wants_check)
        status = check(&config);
    else
        status = run(&config, argc, argv);
    config_release(&config);
    return status;
}
