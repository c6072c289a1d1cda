/* launchfile.c - fields of bytes with their lengths before them.
 *
 * Fields come in any order, but "own" belongs to the "worker" before it.
 */
#include "engine/launchfile.h"
#include "base/buf.h"
#include "base/str.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "firn-launch 1\n";

enum { WORKERS_MAX = 1 << 16, GRACE_MAX_S = 30 * 86400 };

void launchfile_add_worker(struct launchfile *launch)
{
    struct launch_worker worker = {.first = launch->own.n};
    vec_add(&launch->workers, worker);
}

void launchfile_add_own(struct launchfile *launch, const char *variable)
{
    vec_add(&launch->own, variable);
    launch->workers.at[launch->workers.n - 1].n++;
}

static void put(struct firn_buf *out, const char *name, const char *value)
{
    size_t n = strlen(value);
    buf_printf(out, "%s %zu\n", name, n);
    buf_add(out, value, n);
    buf_putc(out, '\n');
}

static void put_int(struct firn_buf *out, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put(out, name, text);
}

void launchfile_write(const struct launchfile *launch, struct firn_buf *out)
{
    buf_puts(out, head);
    char grace[STR_DOUBLE_MAX];
    put_int(out, "job", launch->job);
    put_int(out, "epoch", launch->attempt);
    put(out, "workdir", launch->workdir);
    put(out, "log", launch->log);
    put_int(out, "logmax", launch->log_max_bytes);
    put(out, "grace", double_text(launch->grace_s, grace));
    put_int(out, "checkpoints", launch->can_checkpoint);
    put_int(out, "cage", launch->cgroup);
    for (size_t i = 0; i < launch->argv.n; i++)
        put(out, "arg", launch->argv.at[i]);
    for (size_t i = 0; i < launch->common.n; i++)
        put(out, "common", launch->common.at[i]);
    for (size_t i = 0; i < launch->workers.n; i++) {
        const struct launch_worker *worker = &launch->workers.at[i];
        put(out, "worker", "");
        for (size_t k = 0; k < worker->n; k++)
            put(out, "own", launch->own.at[worker->first + k]);
    }
    for (size_t i = 0; i < launch->env.n; i++)
        put(out, "env", launch->env.at[i]);
    put(out, "end", "");
}

struct cursor {
    const char *at, *end;
    struct arena *text;
    char name[16];
    const char *value; /* in the arena */
};

/* "name 12\n", the bytes, "\n". */
static bool next_field(struct cursor *c)
{
    size_t n = 0;
    while (c->at + n < c->end && c->at[n] >= 'a' && c->at[n] <= 'z')
        n++;
    if (n == 0 || n >= sizeof c->name || c->at + n == c->end || c->at[n] != ' ')
        return false;
    memcpy(c->name, c->at, n);
    c->name[n] = '\0';
    c->at += n + 1;
    size_t size = 0, digits = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, digits++)
        size = size < (1 << 28) ? 10 * size + (size_t)(*c->at - '0') : size;
    size_t left = (size_t)(c->end - c->at);
    if (digits == 0 || left < 2 || *c->at != '\n' || size > left - 2 ||
        c->at[1 + size] != '\n' || memchr(c->at + 1, '\0', size) != NULL)
        return false;
    char *value = arena_alloc(c->text, size + 1);
    memcpy(value, c->at + 1, size);
    c->value = value;
    c->at += size + 2;
    return true;
}

/* Fields that occur once. */
enum {
    JOB,
    ATTEMPT,
    WORKDIR,
    LOG,
    LOGMAX,
    GRACE,
    CHECKPOINTS,
    CGROUP,
    NSINGLE
};
static const char *const singles[NSINGLE] = {
    "job", "epoch", "workdir", "log", "logmax", "grace", "checkpoints", "cage"};
/* An older firn does not write LOGMAX. */
enum { ALL = (1 << NSINGLE) - 1, NEEDED = ALL & ~(1 << LOGMAX) };

static bool take_single(struct launchfile *out, int which, const char *value)
{
    long n = 0;
    bool is_good = true;
    switch (which) {
    case JOB:
        is_good = str_int(value, 0, INT_MAX, &n);
        out->job = n;
        break;
    case ATTEMPT:
        is_good = str_int(value, 1, LONG_MAX, &n);
        out->attempt = n;
        break;
    case WORKDIR:
        out->workdir = value;
        break;
    case LOG:
        out->log = value;
        break;
    case LOGMAX:
        is_good = str_int(value, 0, LONG_MAX, &n);
        out->log_max_bytes = n;
        break;
    case GRACE:
        is_good = str_double(value, &out->grace_s) && out->grace_s >= 0 &&
                  out->grace_s <= GRACE_MAX_S;
        break;
    case CHECKPOINTS:
        is_good = str_int(value, 0, 1, &n);
        out->can_checkpoint = n == 1;
        break;
    default:
        is_good = str_int(value, 0, 2, &n);
        out->cgroup = (int)n;
        break;
    }
    return is_good;
}

static bool take_listed(struct launchfile *out, const char *name,
                        const char *value)
{
    if (strcmp(name, "arg") == 0) {
        vec_add(&out->argv, value);
        return true;
    }
    if (strcmp(name, "worker") == 0 && out->workers.n < WORKERS_MAX) {
        launchfile_add_worker(out);
        return value[0] == '\0';
    }
    if (value[0] == '=' || strchr(value, '=') == NULL)
        return false;
    if (strcmp(name, "common") == 0)
        vec_add(&out->common, value);
    else if (strcmp(name, "env") == 0)
        vec_add(&out->env, value);
    else if (strcmp(name, "own") == 0 && out->workers.n > 0)
        launchfile_add_own(out, value);
    else
        return false;
    return true;
}

enum firn_status launchfile_read(struct launchfile *out, struct firn_bytes text,
                                 struct firn_error *err)
{
    size_t nhead = sizeof head - 1;
    unsigned seen = 0;
    *out = (struct launchfile){0};
    if (text.n < nhead || memcmp(text.at, head, nhead) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the launch file does not begin with 'firn-launch 1'");
    struct cursor c = {text.at + nhead, text.at + text.n, &out->text, "", NULL};
    while (next_field(&c)) {
        if (strcmp(c.name, "end") == 0) {
            if (c.at != c.end || (seen & NEEDED) != NEEDED ||
                out->argv.n == 0 || out->workers.n == 0)
                break;
            return FIRN_OK;
        }
        int which = 0;
        while (which < NSINGLE && strcmp(singles[which], c.name) != 0)
            which++;
        bool is_single = which < NSINGLE;
        bool is_good = is_single ? (seen & 1u << which) == 0 &&
                                       take_single(out, which, c.value)
                                 : take_listed(out, c.name, c.value);
        if (!is_good)
            return firn_fail(err, FIRN_EINVAL,
                             "the launch file's field '%s' is invalid", c.name);
        if (is_single)
            seen |= 1u << which;
    }
    return firn_fail(err, FIRN_EINVAL, "the launch file is incomplete");
}

void launchfile_release(struct launchfile *launch)
{
    arena_release(&launch->text);
    vec_release(&launch->argv);
    vec_release(&launch->common);
    vec_release(&launch->workers);
    vec_release(&launch->own);
    vec_release(&launch->env);
}
