/* config.c - options of firnd: command line over firn.yaml over defaults.
 *
 * One table has each key and its place in struct config, for options and YAML.
 * The command line is read first; the file sets what it left open, the defaults
 * set the rest. The file is a flat mapping of texts with one list; it is read
 * by yaml_walk(), so that every error has its line.
 */
#include "daemon/config.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/yamltext.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, TOKEN_MIN = 16, TOKEN_MAX = 512, SOCKET_MAX = 107 };

const char config_help[] =
    "usage: firnd [OPTION]...\n"
    "Runs training jobs on the GPUs of this host or of a Slurm cluster.\n"
    "\n"
    "  --config FILE         read options from FILE (YAML; the names below "
    "without\n"
    "                        dashes); the command line takes precedence\n"
    "  --engine NAME         backend that runs jobs: local or slurm (default: "
    "local)\n"
    "  --policy NAME         scheduling policy, see 'firn policies'; ./mine.so "
    "loads\n"
    "                        one from a shared object (default: firn)\n"
    "  --gpus SPEC           GPUs of the local backend, e.g. 1x4:v100@16: one "
    "node\n"
    "                        with four V100 of 16 GiB (default: ask the "
    "driver)\n"
    "  --state DIR           state directory: database, logs, checkpoints "
    "(default:\n"
    "                        ~/.local/state/firn)\n"
    "  --socket PATH         UNIX socket for commands and trainers (default:\n"
    "                        $XDG_RUNTIME_DIR/firn.sock, else DIR/firn.sock)\n"
    "  --listen HOST:PORT    also listen on TCP; needs --token-file (default: "
    "off)\n"
    "  --token-file FILE     file with the operator's token, mode 0600\n"
    "  --tls-cert FILE, --tls-key FILE\n"
    "                        certificate chain and private key (PEM): TLS on "
    "--listen\n"
    "  --listen-plain        listen beyond this host without TLS: tokens can "
    "be read\n"
    "                        on the network\n"
    "  --callback URL        URL by which trainers on other hosts reach firnd, "
    "e.g.\n"
    "                        http://head:7070 (default: made from --listen)\n"
    "  --socket-group GROUP  group whose members may use the socket (default: "
    "none)\n"
    "  --operators LIST      users with all rights: names with commas, "
    "@group for a\n"
    "                        group; always firnd's own user and root\n"
    "  --users LIST          users that submit jobs and change their own "
    "(default:\n"
    "                        the members of --socket-group)\n"
    "  --viewers LIST        users that see the queue and the cluster\n"
    "  --shares FILE         users and projects with shares and quotas "
    "(default:\n"
    "                        none); read again after SIGHUP\n"
    "  --idle-after TIME     report jobs whose GPUs are at 0 % and that make "
    "no\n"
    "                        progress for TIME, e.g. 30m (default: off)\n"
    "  --launcher PATH       socket of firn-launch, which runs jobs as the "
    "users "
    "who\n"
    "                        submitted them (default: none; all jobs run as "
    "firnd's\n"
    "                        user, and other users cannot submit)\n"
    "  --notify-command PATH\n"
    "                        program that tells users of ends, failures and\n"
    "                        preemptions of jobs that ask for it by 'notify' "
    "(default:\n"
    "                        none)\n"
    "  --set NAME=VALUE      option of a policy or backend, e.g. fifo.skip=1; "
    "may be\n"
    "                        repeated\n"
    "  --allow-root          start although the user is root; all jobs run as "
    "root\n"
    "  --check-config        check options and FILE, print what is wrong, "
    "and end\n"
    "  --help, --version     print this page; print the version\n"
    "\n"
    "Limits; 0 means no limit:\n"
    "  --jobs-max N          queued and running jobs (default: 200000)\n"
    "  --user-jobs-max N     queued and running jobs of one user (default: 0)\n"
    "  --log-mib N           MiB of output kept per job, the newest (default: "
    "64)\n"
    "  --keep-jobs N         finished jobs whose logs are kept (default: "
    "10000)\n"
    "  --keep-jobs-days N    days that logs of finished jobs are kept "
    "(default: "
    "30)\n"
    "  --keep-rows N         finished jobs kept in the database (default: "
    "100000)\n"
    "  --keep-events-days N  days that events and reports are kept (default: "
    "30)\n";

struct key {
    const char *name;
    size_t at;
    bool in_file;
    bool is_switch; /* the option without a value means "yes" */
};

static const struct key keys[] = {
    {"config", offsetof(struct config, file), false, false},
    {"engine", offsetof(struct config, engine), true, false},
    {"policy", offsetof(struct config, policy), true, false},
    {"state", offsetof(struct config, state), true, false},
    {"socket", offsetof(struct config, socket), true, false},
    {"listen", offsetof(struct config, listen), true, false},
    {"token-file", offsetof(struct config, token_file), true, false},
    {"socket-group", offsetof(struct config, socket_group), true, false},
    {"operators", offsetof(struct config, operators), true, false},
    {"users", offsetof(struct config, users), true, false},
    {"viewers", offsetof(struct config, viewers), true, false},
    {"tls-cert", offsetof(struct config, tls_cert), true, false},
    {"tls-key", offsetof(struct config, tls_key), true, false},
    {"shares", offsetof(struct config, shares), true, false},
    {"idle-after", offsetof(struct config, idle_after), true, false},
    {"launcher", offsetof(struct config, launcher), true, false},
    {"listen-plain", offsetof(struct config, listen_plain), true, true},
    {"gpus", offsetof(struct config, gpus), true, false},
    {"notify-command", offsetof(struct config, notify_command), true, false},
    {"callback", offsetof(struct config, callback), true, false},
    {"jobs-max", offsetof(struct config, jobs_max), true, false},
    {"user-jobs-max", offsetof(struct config, user_jobs_max), true, false},
    {"allow-root", offsetof(struct config, allow_root), true, true},
    {"log-mib", offsetof(struct config, log_mib), true, false},
    {"keep-jobs", offsetof(struct config, keep_jobs), true, false},
    {"keep-jobs-days", offsetof(struct config, keep_jobs_days), true, false},
    {"keep-rows", offsetof(struct config, keep_rows), true, false},
    {"keep-events-days", offsetof(struct config, keep_events_days), true,
     false},
};
enum { NKEYS = sizeof keys / sizeof *keys };

static const char **place(struct config *config, const struct key *key)
{
    return (const char **)(void *)((char *)config + key->at);
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static const char *nearest_key(const char *name)
{
    const char *names[NKEYS + 1];
    for (size_t i = 0; i < NKEYS; i++)
        names[i] = keys[i].name;
    names[NKEYS] = "set";
    int at = str_nearest(name, names, NKEYS + 1);
    return at < 0 ? NULL : names[at];
}

/* Is it "owner.option=value"? */
static bool is_setting(const char *text)
{
    const char *dot = strchr(text, '.'), *equals = strchr(text, '=');
    return dot != NULL && equals != NULL && dot > text && equals > dot + 1;
}

static void add_setting(struct config *config, const char *text)
{
    struct {
        const char **at;
        size_t n, cap;
    } list = {config->settings, config->nsettings, config->settings_cap};
    vec_add(&list, arena_strdup(&config->text, text));
    config->settings = list.at;
    config->nsettings = list.n;
    config->settings_cap = list.cap;
}

/* --- flags --------------------------------------------------------------- */

static enum firn_status unknown_flag(const char *flag, struct firn_error *err)
{
    const char *near =
        flag[0] == '-' && flag[1] == '-' ? nearest_key(flag + 2) : NULL;
    if (near != NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "unknown option '%.60s'; did you mean --%s?", flag,
                         near);
    return firn_fail(err, FIRN_EINVAL,
                     "unknown option '%.60s'; 'firnd --help' lists the options",
                     flag);
}

static enum firn_status take_flag(struct config *config, const char *name,
                                  const char *value, struct firn_error *err)
{
    const struct key *key = find_key(name);
    if (*value == '\0')
        return firn_fail(err, FIRN_EINVAL, "--%s needs a value", name);
    if (strcmp(name, "set") == 0) {
        if (!is_setting(value))
            return firn_fail(err, FIRN_EINVAL,
                             "--set '%.60s': expected owner.option=value, e.g. "
                             "fifo.skip=1",
                             value);
        add_setting(config, value);
        return FIRN_OK;
    }
    if (*place(config, key) != NULL)
        return firn_fail(err, FIRN_EINVAL, "--%s is given twice", name);
    *place(config, key) = arena_strdup(&config->text, value);
    return FIRN_OK;
}

enum firn_status config_flags(struct config *config, int argc,
                              char *const *argv, struct firn_error *err)
{
    for (int i = 1; i < argc; i++) {
        char name[32];
        const char *flag = argv[i], *equals = strchr(flag, '=');
        size_t n = equals != NULL ? (size_t)(equals - flag) : strlen(flag);
        if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0) {
            config->wants_help = true;
            continue;
        }
        if (strcmp(flag, "--version") == 0) {
            config->wants_version = true;
            continue;
        }
        if (strcmp(flag, "--check-config") == 0) {
            config->wants_check = true;
            continue;
        }
        snprintf(name, sizeof name, "%.*s",
                 (int)(n > 2 && n < sizeof name ? n - 2 : 0), flag + 2);
        bool is_known = strncmp(flag, "--", 2) == 0 &&
                        (find_key(name) != NULL || strcmp(name, "set") == 0);
        if (!is_known)
            return unknown_flag(flag, err);
        const struct key *key = find_key(name);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (value == NULL && key != NULL && key->is_switch)
            value = "yes";
        if (value == NULL && i + 1 == argc)
            return firn_fail(err, FIRN_EINVAL, "--%s needs a value", name);
        FIRN_TRY(
            take_flag(config, name, value != NULL ? value : argv[++i], err));
    }
    return FIRN_OK;
}

/* --- the file ------------------------------------------------------------ */

/* State of reading the file. */
struct reading {
    struct config *config;
    int depth;             /* open mappings and lists */
    const struct key *key; /* the key of the next value */
    bool wants_list, in_list, is_after_key;
    bool seen[NKEYS], seen_settings;
    const char *values[NKEYS];
    char why[160];
};

static const char *read_key(struct reading *r, const char *text)
{
    r->is_after_key = true;
    r->wants_list = strcmp(text, "settings") == 0;
    bool is_again = r->wants_list && r->seen_settings;
    if (r->wants_list) {
        r->seen_settings = true;
        return is_again ? "'settings' is given twice" : NULL;
    }
    r->key = find_key(text);
    if (r->key == NULL || !r->key->in_file) {
        const char *near = nearest_key(text);
        snprintf(r->why, sizeof r->why, "unknown key '%.60s'%s%s%s", text,
                 near ? "; did you mean '" : "", near ? near : "",
                 near ? "'?" : "");
        return r->why;
    }
    if (r->seen[r->key - keys]) {
        snprintf(r->why, sizeof r->why, "'%s' is given twice", r->key->name);
        return r->why;
    }
    r->seen[r->key - keys] = true;
    return NULL;
}

static const char *read_value(struct reading *r, const char *text)
{
    if (r->in_list) {
        if (!is_setting(text))
            return "a setting must be owner.option=value, e.g. fifo.skip=1";
        add_setting(r->config, text);
        return NULL;
    }
    r->is_after_key = false;
    if (r->wants_list)
        return "'settings' must be a list";
    if (*text == '\0') {
        snprintf(r->why, sizeof r->why, "'%s' has no value", r->key->name);
        return r->why;
    }
    r->values[r->key - keys] = arena_strdup(&r->config->text, text);
    return NULL;
}

static const char *read_scalar(struct reading *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (r->depth == 0)
        return event->data.scalar.length == 0 ? NULL : "expected 'key: value'";
    for (size_t i = 0; i < event->data.scalar.length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return "a control character";
    return r->is_after_key || r->in_list ? read_value(r, text)
                                         : read_key(r, text);
}

static const char *read_event(void *arg, const yaml_event_t *event)
{
    struct reading *r = arg;
    switch (event->type) {
    case YAML_MAPPING_START_EVENT:
        return r->depth++ > 0 ? "unexpected mapping" : NULL;
    case YAML_SEQUENCE_START_EVENT:
        if (r->depth++ == 0)
            return "expected 'key: value'";
        if (!r->is_after_key || !r->wants_list || r->in_list)
            return "unexpected list";
        r->in_list = true;
        return NULL;
    case YAML_SEQUENCE_END_EVENT:
        r->in_list = r->is_after_key = r->wants_list = false;
        r->depth--;
        return NULL;
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return NULL;
    case YAML_ALIAS_EVENT:
        return "YAML aliases are not supported";
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    default:
        return NULL;
    }
}

/* Moves the settings from `first` on (of the file) before the others (of the
 * command line): the last one wins. */
static void file_first(struct config *config, size_t first)
{
    size_t n = config->nsettings;
    const char **all = mem_new(n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = config->settings[(first + i) % n];
    mem_free(config->settings);
    config->settings = all;
    config->settings_cap = n + 1;
}

enum firn_status config_text(struct config *config, struct firn_bytes text,
                             const char *where, struct firn_error *err)
{
    struct reading reading = {.config = config};
    size_t first = config->nsettings;
    FIRN_TRY(yaml_walk(text, where, read_event, &reading, err));
    file_first(config, first);
    for (size_t i = 0; i < NKEYS; i++)
        if (*place(config, &keys[i]) == NULL)
            *place(config, &keys[i]) = reading.values[i];
    return FIRN_OK;
}

/* Reads a small file into `out`. */
static enum firn_status slurp(const char *path, struct firn_buf *out,
                              struct stat *st, struct firn_error *err)
{
    char room[4096];
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, st) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return firn_fail(err, error == ENOENT ? FIRN_ENOENT : FIRN_EIO,
                         "cannot read '%.300s': %s", path, strerror(error));
    }
    while (out->n <= FILE_MAX && (n = read(fd, room, sizeof room)) > 0)
        buf_add(out, room, (size_t)n);
    close(fd);
    if (n < 0 || out->n > FILE_MAX)
        return firn_fail(err, FIRN_EIO, "cannot read '%.300s': %s", path,
                         n < 0 ? strerror(errno) : "it is too long");
    return FIRN_OK;
}

static enum firn_status read_file(struct config *config, struct firn_error *err)
{
    struct firn_buf text = {0};
    struct stat st;
    enum firn_status status = slurp(config->file, &text, &st, err);
    if (status == FIRN_OK)
        status = config_text(config, (struct firn_bytes){text.at, text.n},
                             config->file, err);
    buf_release(&text);
    return status;
}

/* --- defaults ------------------------------------------------------------ */

static const char *join(struct config *config, const char *a, const char *b)
{
    struct firn_buf text = {0};
    buf_printf(&text, "%s/%s", a, b);
    const char *out = arena_strdup(&config->text, text.at);
    buf_release(&text);
    return out;
}

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] == '/' ? text : NULL;
}

static enum firn_status default_state(struct config *config,
                                      struct firn_error *err)
{
    const char *base = variable("XDG_STATE_HOME"), *home = variable("HOME");
    if (base != NULL)
        config->state = join(config, base, "firn");
    else if (home != NULL)
        config->state = join(config, home, ".local/state/firn");
    else
        return firn_fail(err, FIRN_EINVAL,
                         "HOME is not set, so there is no default state "
                         "directory: give --state DIR");
    config->is_usual = true;
    return FIRN_OK;
}

void config_make_parents(const struct config *config)
{
    struct firn_buf path = {0};
    for (const char *at = config->is_usual ? config->state : ""; *at; at++) {
        if (*at == '/' && path.n > 0)
            (void)mkdir(path.at, 0700);
        buf_putc(&path, *at);
    }
    buf_release(&path);
}

/* Makes a path absolute: jobs have other working directories. */
static enum firn_status make_absolute(struct config *config, const char **path,
                                      struct firn_error *err)
{
    char here[4096];
    if ((*path)[0] == '/')
        return FIRN_OK;
    if (getcwd(here, sizeof here) == NULL)
        return firn_fail(err, FIRN_EIO, "cannot find the current directory: %s",
                         strerror(errno));
    *path = join(config, here, *path);
    return FIRN_OK;
}

static enum firn_status check_callback(const char *url, struct firn_error *err)
{
    const char *host = strncmp(url, "http://", 7) == 0    ? url + 7
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                                                          : "";
    bool is_good = host[0] != '\0' && host[0] != '/' && host[0] != ':';
    for (const char *at = host; *at != '\0'; at++)
        is_good = is_good && *at > ' ' && *at < 0x7f && *at != '@';
    return is_good
               ? FIRN_OK
               : firn_fail(err, FIRN_EINVAL,
                           "callback '%.200s': expected http://HOST:PORT", url);
}

enum firn_status config_finish(struct config *config, struct firn_error *err)
{
    if (config->file != NULL)
        FIRN_TRY(read_file(config, err));
    config_live(config);
    if (config->engine == NULL)
        config->engine = "local";
    if (config->policy == NULL)
        config->policy = "firn";
    if (config->state == NULL)
        FIRN_TRY(default_state(config, err));
    FIRN_TRY(make_absolute(config, &config->state, err));
    const char *runtime = variable("XDG_RUNTIME_DIR");
    if (config->socket == NULL)
        config->socket = join(config, runtime != NULL ? runtime : config->state,
                              "firn.sock");
    FIRN_TRY(make_absolute(config, &config->socket, err));
    if (strlen(config->socket) > SOCKET_MAX)
        return firn_fail(
            err, FIRN_EINVAL,
            "the path of the socket '%.200s' has more than %d bytes",
            config->socket, SOCKET_MAX);
    if (config->listen != NULL && config->token_file == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "--listen needs a token: give --token-file FILE");
    if (config->callback != NULL)
        FIRN_TRY(check_callback(config->callback, err));
    if (config->launcher != NULL) {
        struct firn_buf setting = {0};
        FIRN_TRY(make_absolute(config, &config->launcher, err));
        buf_printf(&setting, "%s.launcher=%s", config->engine,
                   config->launcher);
        add_setting(config, setting.at);
        buf_release(&setting);
    }
    if (config->notify_command != NULL)
        FIRN_TRY(make_absolute(config, &config->notify_command, err));
    if (config->users == NULL && config->socket_group != NULL) {
        struct firn_buf group = {0};
        buf_printf(&group, "@%s", config->socket_group);
        config->users = arena_strdup(&config->text, group.at);
        buf_release(&group);
    }
    FIRN_TRY(config_keep_read(config, err));
    return config_check_values(config, err);
}

/* Appends the host of "host:port" or "[::1]:port"; an address that means all
 * interfaces becomes this host's name. */
static void put_host(struct firn_buf *out, const char *listen)
{
    static const char *const any[] = {"", "*", "0.0.0.0", "[::]"};
    const char *colon = strrchr(listen, ':');
    char host[256] = "", name[256] = "";
    snprintf(host, sizeof host, "%.*s",
             colon != NULL ? (int)(colon - listen) : 255, listen);
    bool is_any = false;
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        is_any = is_any || strcmp(host, any[i]) == 0;
    if (is_any && gethostname(name, sizeof name - 1) != 0)
        str_copy(name, sizeof name, "localhost");
    buf_puts(out, is_any ? name : host);
}

enum firn_status config_url(const struct config *config, bool is_remote,
                            int port, struct firn_buf *out,
                            struct firn_error *err)
{
    if (is_remote && config->listen == NULL)
        return firn_fail(
            err, FIRN_EINVAL,
            "backend %s runs trainers on other hosts, which report "
            "over TCP: give --listen HOST:PORT and --token-file "
            "FILE",
            config->engine);
    if (config->callback != NULL) {
        buf_puts(out, config->callback);
    } else if (is_remote) {
        buf_puts(out, config->tls_cert != NULL ? "https://" : "http://");
        put_host(out, config->listen);
        buf_printf(out, ":%d", port);
    } else {
        buf_printf(out, "unix:%s", config->socket);
    }
    return FIRN_OK;
}

void config_board_url(const struct config *config, int port,
                      struct firn_buf *out)
{
    if (config->listen == NULL)
        return;
    buf_puts(out, config->tls_cert != NULL ? "https://" : "http://");
    put_host(out, config->listen);
    buf_printf(out, ":%d", port);
}

enum firn_status config_token(struct config *config, const char **token,
                              struct firn_error *err)
{
    struct firn_buf text = {0};
    struct stat st;
    *token = NULL;
    if (config->token_file == NULL)
        return FIRN_OK;
    enum firn_status status = slurp(config->token_file, &text, &st, err);
    if (status != FIRN_OK) {
        buf_release(&text);
        return status;
    }
    char *word = str_trim(text.n > 0 ? text.at : (char[]){""});
    size_t n = strcspn(word, "\n");
    bool is_plain = n >= TOKEN_MIN && n <= TOKEN_MAX;
    for (size_t i = 0; i < n; i++)
        is_plain = is_plain && word[i] > ' ' && word[i] < 0x7f;
    if ((st.st_mode & 077) != 0)
        status = firn_fail(err, FIRN_EINVAL,
                           "other users can read the token file '%.300s': run "
                           "chmod 600 on it",
                           config->token_file);
    else if (!is_plain)
        status =
            firn_fail(err, FIRN_EINVAL,
                      "the first line of the token file '%.300s' must be %d "
                      "to %d printable characters without spaces",
                      config->token_file, TOKEN_MIN, TOKEN_MAX);
    else
        *token = arena_strdup(&config->text, (word[n] = '\0', word));
    buf_release(&text);
    return status;
}

/* One file of PEM texts into the arena. */
static enum firn_status read_pem(struct config *config, const char *path,
                                 bool is_secret, const char **out,
                                 struct firn_error *err)
{
    struct firn_buf text = {0};
    struct stat st;
    enum firn_status status = slurp(path, &text, &st, err);
    if (status == FIRN_OK && is_secret && (st.st_mode & 077) != 0)
        status = firn_fail(err, FIRN_EINVAL,
                           "other users can read the key file '%.300s': run "
                           "chmod 600 on it",
                           path);
    else if (status == FIRN_OK &&
             (text.n == 0 || strstr(text.at, "-----BEGIN ") == NULL))
        status = firn_fail(err, FIRN_EINVAL,
                           "'%.300s' is not a PEM file: it has no line "
                           "'-----BEGIN ...'",
                           path);
    if (status == FIRN_OK)
        *out = arena_strdup(&config->text, text.at);
    buf_release(&text);
    return status;
}

enum firn_status config_tls(struct config *config, const char **certificate,
                            const char **key, struct firn_error *err)
{
    *certificate = *key = NULL;
    if (config->tls_cert == NULL)
        return FIRN_OK;
    FIRN_TRY(read_pem(config, config->tls_cert, false, certificate, err));
    return read_pem(config, config->tls_key, true, key, err);
}

void config_release(struct config *config)
{
    mem_free(config->settings);
    arena_release(&config->text);
    *config = (struct config){0};
}
