/* config.c - flags, firn.yaml, defaults: the first of them that sets a value
 * counts.
 *
 * One table has each key with its place, for flags and for YAML. Flags are
 * taken in first; the file fills what they left open, the defaults the rest.
 * The file is read by yaml_walk() alone: it is a flat mapping of texts with one
 * list, and so every complaint has its own line.
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
    "Schedules and runs training jobs on this host's GPUs.\n"
    "\n"
    "  --config FILE      options from a file: the same names, without dashes\n"
    "  --engine NAME      who runs jobs: local; or slurm\n"
    "  --policy NAME      who gets what: icefrog; 'firn policies' lists them\n"
    "  --gpus SPEC        GPUs declared by hand, such as 1x4:v100@16; without, "
    "the\n"
    "                     driver is asked\n"
    "  --state DIR        what must not be forgotten: ~/.local/state/firn\n"
    "  --socket PATH      where commands and trainers call: "
    "$XDG_RUNTIME_DIR/firn.sock,\n"
    "                     or firn.sock in the state folder\n"
    "  --listen ADDRESS   TCP too, such as 127.0.0.1:7070; needs a token\n"
    "  --token-file FILE  the operator's token, in a file only its owner can "
    "read\n"
    "  --callback URL     where trainers on other hosts report, such as\n"
    "                     http://head:7070; without, by --listen\n"
    "  --log-mib N        MiB kept of each job's output, the newest: 64\n"
    "  --keep-jobs N      folders kept of finished jobs, the newest: 10000\n"
    "  --keep-jobs-days N removes folders of jobs finished N days ago: 30\n"
    "  --keep-rows N      finished jobs kept in the database, the newest: "
    "100000\n"
    "  --keep-events-days N removes events and reports after N days: 30\n"
    "                     0 in any of these five keeps all\n"
    "  --set NAME=VALUE   an option of a policy or an engine: fifo.skip=1\n"
    "  --jobs-max N       jobs that wait or run at most: 200000; 0: any "
    "number\n"
    "  --user-jobs-max N  the same for one user: 0\n"
    "  --allow-root       start although the user is root: every job runs as "
    "root\n"
    "  --help, --version\n";

struct key {
    const char *name;
    size_t at;
    bool in_file;
    bool is_switch; /* the flag alone means "yes" */
};

static const struct key keys[] = {
    {"config", offsetof(struct config, file), false, false},
    {"engine", offsetof(struct config, engine), true, false},
    {"policy", offsetof(struct config, policy), true, false},
    {"state", offsetof(struct config, state), true, false},
    {"socket", offsetof(struct config, socket), true, false},
    {"listen", offsetof(struct config, listen), true, false},
    {"token-file", offsetof(struct config, token_file), true, false},
    {"gpus", offsetof(struct config, gpus), true, false},
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

/* "owner.option=value". */
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
                         "there is no option '%.60s'; did you mean --%s?", flag,
                         near);
    return firn_fail(err, FIRN_EINVAL, "there is no option '%.60s'", flag);
}

static enum firn_status take_flag(struct config *config, const char *name,
                                  const char *value, struct firn_error *err)
{
    const struct key *key = find_key(name);
    if (*value == '\0')
        return firn_fail(err, FIRN_EINVAL, "--%s has no value", name);
    if (strcmp(name, "set") == 0) {
        if (!is_setting(value))
            return firn_fail(err, FIRN_EINVAL,
                             "--set '%.60s' is not owner.option=value", value);
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

/* Where the reading is. */
struct reading {
    struct config *config;
    int depth;             /* open mappings and lists */
    const struct key *key; /* whose value is next */
    bool wants_list, in_list, is_after_key;
    bool seen[NKEYS], seen_settings;
    const char *said[NKEYS];
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
            return "a setting is owner.option=value";
        add_setting(r->config, text);
        return NULL;
    }
    r->is_after_key = false;
    if (r->wants_list)
        return "'settings' is a list";
    if (*text == '\0') {
        snprintf(r->why, sizeof r->why, "'%s' has no value", r->key->name);
        return r->why;
    }
    r->said[r->key - keys] = arena_strdup(&r->config->text, text);
    return NULL;
}

static const char *read_scalar(struct reading *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (r->depth == 0)
        return event->data.scalar.length == 0
                   ? NULL
                   : "a mapping is expected: 'key: value'";
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
        return r->depth++ > 0 ? "no mapping belongs here" : NULL;
    case YAML_SEQUENCE_START_EVENT:
        if (r->depth++ == 0)
            return "a mapping is expected: 'key: value'";
        if (!r->is_after_key || !r->wants_list || r->in_list)
            return "no list belongs here";
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
        return "aliases are not read";
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    default:
        return NULL;
    }
}

/* Puts the settings from `first` on before the rest: the last one counts. */
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
            *place(config, &keys[i]) = reading.said[i];
    return FIRN_OK;
}

/* A small file whole, into `out`. */
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
        return firn_fail(err, FIRN_EINVAL, "there is no HOME: say --state DIR");
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

/* From the folder of now: jobs have theirs. */
static enum firn_status make_absolute(struct config *config, const char **path,
                                      struct firn_error *err)
{
    char here[4096];
    if ((*path)[0] == '/')
        return FIRN_OK;
    if (getcwd(here, sizeof here) == NULL)
        return firn_fail(err, FIRN_EIO, "there is no working folder: %s",
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
    return is_good ? FIRN_OK
                   : firn_fail(err, FIRN_EINVAL,
                               "callback '%.200s' is no http://HOST:PORT", url);
}

enum firn_status config_finish(struct config *config, struct firn_error *err)
{
    if (config->file != NULL)
        FIRN_TRY(read_file(config, err));
    if (config->engine == NULL)
        config->engine = "local";
    if (config->policy == NULL)
        config->policy = "icefrog";
    if (config->state == NULL)
        FIRN_TRY(default_state(config, err));
    FIRN_TRY(make_absolute(config, &config->state, err));
    const char *runtime = variable("XDG_RUNTIME_DIR");
    if (config->socket == NULL)
        config->socket = join(config, runtime != NULL ? runtime : config->state,
                              "firn.sock");
    FIRN_TRY(make_absolute(config, &config->socket, err));
    if (strlen(config->socket) > SOCKET_MAX)
        return firn_fail(err, FIRN_EINVAL,
                         "the socket's path '%.200s' has more than %d bytes",
                         config->socket, SOCKET_MAX);
    if (config->listen != NULL && config->token_file == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "--listen needs a token: say --token-file FILE");
    if (config->callback != NULL)
        FIRN_TRY(check_callback(config->callback, err));
    FIRN_TRY(config_keep_read(config, err));
    return config_check_values(config, err);
}

/* The host of "host:port" or "[::1]:port"; one that means every address becomes
 * this host's name. */
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
        return firn_fail(err, FIRN_EINVAL,
                         "engine %s runs trainers on other hosts, which report "
                         "over TCP: say --listen ADDRESS and --token-file FILE",
                         config->engine);
    if (config->callback != NULL) {
        buf_puts(out, config->callback);
    } else if (is_remote) {
        buf_puts(out, "http://");
        put_host(out, config->listen);
        buf_printf(out, ":%d", port);
    } else {
        buf_printf(out, "unix:%s", config->socket);
    }
    return FIRN_OK;
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
                           "others can read '%.300s': chmod 600 it",
                           config->token_file);
    else if (!is_plain)
        status = firn_fail(err, FIRN_EINVAL,
                           "the first line of '%.300s' is no token: %d to %d "
                           "printable letters without blanks",
                           config->token_file, TOKEN_MIN, TOKEN_MAX);
    else
        *token = arena_strdup(&config->text, (word[n] = '\0', word));
    buf_release(&text);
    return status;
}

void config_release(struct config *config)
{
    mem_free(config->settings);
    arena_release(&config->text);
    *config = (struct config){0};
}
