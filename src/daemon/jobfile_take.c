/* jobfile_take.c - the keys of a job file, each with what takes its value.
 *
 * Tables name every key, the function that reads its value and the field that
 * gets it. What is not in them is refused, with the nearest key. A sentence
 * says what the value is and what it should have been.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/jobfile_value.h"
#include "daemon/jobfile_work.h"
#include <firn/cluster.h>
#include <stddef.h>
#include <string.h>

enum { TEXT_MAX = 4096, LIST_MAX = 1024 };

struct key;
typedef enum firn_status take_fn(struct reading *r, const struct key *key,
                                 const struct tree *value);

struct key {
    const char *name;
    take_fn *take;
    size_t at;                /* of the field in struct reading */
    long min, max;            /* of numbers */
    const char *words;        /* "allowed|never" */
    size_t line_at;           /* where its line is noted; 0: nowhere */
    const struct key *inside; /* of a mapping */
};

#define AT(field) .at = offsetof(struct reading, field)

static void *field(struct reading *r, const struct key *key)
{
    return (char *)r + key->at;
}

/* --- failing ------------------------------------------------------------- */

/* "FILE: line 3: 'gpus' is 'many', not WHAT". */
static enum firn_status not_what(const struct reading *r, const struct key *key,
                                 const struct tree *value, const char *what)
{
    if (value->kind != TREE_WORD)
        return firn_fail(r->err, FIRN_EINVAL,
                         "%s: line %ld: '%s' is a %s, not %s", r->where,
                         value->line, key->name,
                         value->kind == TREE_LIST ? "list" : "mapping", what);
    if (value->text[0] == '\0')
        return firn_fail(r->err, FIRN_EINVAL,
                         "%s: line %ld: '%s' has no value; it should be %s",
                         r->where, value->line, key->name, what);
    return firn_fail(r->err, FIRN_EINVAL,
                     "%s: line %ld: '%s' is '%.100s', not %s", r->where,
                     value->line, key->name, value->text, what);
}

static bool is_word(const struct tree *value)
{
    return value->kind == TREE_WORD && value->text[0] != '\0';
}

static void set_text(char **at, const char *text)
{
    mem_free(*at);
    *at = mem_strdup(text);
}

/* --- values of one kind -------------------------------------------------- */

static enum firn_status take_name(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    const char *what = value_name(value->text);
    if (!is_word(value) || what != NULL)
        return not_what(r, key, value, what != NULL ? what : "a name");
    set_text(field(r, key), value->text);
    return FIRN_OK;
}

static enum firn_status take_text(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    if (!is_word(value) || strlen(value->text) > TEXT_MAX)
        return not_what(r, key, value, "a text of 1 to 4096 bytes");
    set_text(field(r, key), value->text);
    return FIRN_OK;
}

static enum firn_status take_path(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    if (!is_word(value) || strlen(value->text) > TEXT_MAX ||
        value->text[0] != '/')
        return not_what(r, key, value, "a path from the root, such as /data");
    set_text(field(r, key), value->text);
    return FIRN_OK;
}

static enum firn_status take_whole(struct reading *r, const struct key *key,
                                   const struct tree *value)
{
    long number = 0;
    char what[80];
    struct firn_buf text = {0};
    if (is_word(value) && str_int(value->text, key->min, key->max, &number)) {
        *(int *)field(r, key) = (int)number;
        return FIRN_OK;
    }
    buf_printf(&text, "a whole number from %ld to %ld", key->min, key->max);
    str_copy(what, sizeof what, text.at);
    buf_release(&text);
    return not_what(r, key, value, what);
}

static enum firn_status take_count(struct reading *r, const struct key *key,
                                   const struct tree *value)
{
    long number = 0;
    if (!is_word(value) || !str_int(value->text, 1, 1L << 50, &number))
        return not_what(r, key, value, "a whole number from 1 on");
    *(uint64_t *)field(r, key) = (uint64_t)number;
    return FIRN_OK;
}

static enum firn_status take_metric(struct reading *r, const struct key *key,
                                    const struct tree *value)
{
    double number = 0;
    if (!is_word(value) || !str_double(value->text, &number) || number == 0)
        return not_what(r, key, value, "a number other than 0");
    *(double *)field(r, key) = number;
    return FIRN_OK;
}

/* One of the words; its text. */
static enum firn_status take_word(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    size_t n = strlen(value->text);
    for (const char *at = key->words; is_word(value) && at != NULL;) {
        size_t m = strcspn(at, "|");
        if (n == m && memcmp(at, value->text, n) == 0) {
            set_text(field(r, key), value->text);
            return FIRN_OK;
        }
        at = at[m] == '|' ? at + m + 1 : NULL;
    }
    struct firn_buf what = {0};
    buf_printf(&what, "one of %s", key->words);
    enum firn_status status = not_what(r, key, value, what.at);
    buf_release(&what);
    return status;
}

static enum firn_status take_allowed(struct reading *r, const struct key *key,
                                     const struct tree *value)
{
    bool is_allowed = strcmp(value->text, "allowed") == 0;
    if (!is_word(value) || (!is_allowed && strcmp(value->text, "never") != 0))
        return not_what(r, key, value, "allowed or never");
    *(bool *)field(r, key) = is_allowed;
    return FIRN_OK;
}

/* By a function of jobfile_value.h. */
static enum firn_status take_by(struct reading *r, const struct key *key,
                                const struct tree *value,
                                const char *(*read)(const char *, double *))
{
    double number = 0;
    const char *what = read(value->text, &number);
    if (!is_word(value) || what != NULL)
        return not_what(r, key, value, what != NULL ? what : "a number");
    *(double *)field(r, key) = number;
    return FIRN_OK;
}

static enum firn_status take_time(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    return take_by(r, key, value, value_time_s);
}

static enum firn_status take_gib(struct reading *r, const struct key *key,
                                 const struct tree *value)
{
    return take_by(r, key, value, value_gib);
}

static enum firn_status take_share(struct reading *r, const struct key *key,
                                   const struct tree *value)
{
    return take_by(r, key, value, value_share);
}

static enum firn_status take_date(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    return take_by(r, key, value, value_date_s);
}

/* --- values of their own ------------------------------------------------- */

static enum firn_status take_gpus(struct reading *r, const struct key *key,
                                  const struct tree *value)
{
    const char *what =
        value_range(value->text, &r->ask.gpus_min, &r->ask.gpus_max);
    if (!is_word(value) || what != NULL)
        return not_what(r, key, value, what != NULL ? what : "a number");
    return FIRN_OK;
}

static bool is_type(const struct tree *value)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+";
    size_t n = strlen(value->text);
    return is_word(value) && n < FIRN_NAME_MAX &&
           strspn(value->text, good) == n;
}

static enum firn_status take_types(struct reading *r, const struct key *key,
                                   const struct tree *value)
{
    static const char what[] =
        "a GPU type such as a100, or a list of at most 32";
    bool is_list = value->kind == TREE_LIST;
    if (value->kind == TREE_MAP || (!is_list && !is_type(value)) ||
        (is_list && (value->n == 0 || value->n > FIRN_TYPES_MAX)))
        return not_what(r, key, value, what);
    struct firn_buf text = {0};
    const struct tree *one = is_list ? value->first : value;
    for (size_t i = 0; i < (is_list ? value->n : 1); i++, one = one->next) {
        if (!is_type(one)) {
            buf_release(&text);
            return not_what(r, key, one, "the name of a GPU type");
        }
        buf_printf(&text, "%s%s", i > 0 ? "|" : "", one->text);
    }
    mem_free(r->ask.types);
    r->ask.types = text.at;
    return FIRN_OK;
}

static enum firn_status take_run(struct reading *r, const struct key *key,
                                 const struct tree *value)
{
    if (value->kind == TREE_WORD) {
        const char *what = value_words(value->text, &r->ask.argv);
        return what != NULL ? not_what(r, key, value, what) : FIRN_OK;
    }
    if (value->kind == TREE_MAP || value->n == 0 || value->n > LIST_MAX ||
        !is_word(value->first))
        return not_what(r, key, value, "a command and its arguments");
    r->ask.argv = mem_new(value->n + 1, sizeof *r->ask.argv);
    size_t i = 0;
    for (const struct tree *t = value->first; t != NULL; t = t->next) {
        if (t->kind != TREE_WORD)
            return not_what(r, key, t, "a text for each argument");
        r->ask.argv[i++] = mem_strdup(t->text);
    }
    return FIRN_OK;
}

/* Names that the engine gives values to itself. Where Python finds our library
 * is the user's to say. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {
        "RANK",        "WORLD_SIZE",  "LOCAL_RANK",          "LOCAL_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i], name) == 0)
            return true;
    return strncmp(name, "FIRN_", 5) == 0 &&
           strcmp(name, "FIRN_TRAIN_LIB") != 0;
}

static bool is_variable(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz_0123456789";
    return name[0] != '\0' && strspn(name, good) == strlen(name) &&
           strspn(name, "0123456789") == 0;
}

static enum firn_status take_env(struct reading *r, const struct key *key,
                                 const struct tree *value)
{
    if (value->kind != TREE_MAP)
        return not_what(r, key, value, "a mapping of names to values");
    r->ask.env = mem_new(value->n + 1, sizeof *r->ask.env);
    size_t i = 0;
    for (const struct tree *t = value->first; t != NULL; t = t->next) {
        struct firn_buf text = {0};
        if (t->kind != TREE_WORD)
            return not_what(r, key, t, "a text for each variable");
        if (!is_variable(t->key))
            return firn_fail(r->err, FIRN_EINVAL,
                             "%s: line %ld: a variable's name is letters, "
                             "digits and _, no digit first",
                             r->where, t->line);
        if (is_ours(t->key))
            return firn_fail(r->err, FIRN_EINVAL,
                             "%s: line %ld: %s is set by firn itself", r->where,
                             t->line, t->key);
        buf_printf(&text, "%s=%s", t->key, t->text);
        r->ask.env[i++] = text.at;
    }
    return FIRN_OK;
}

static enum firn_status take_on(struct reading *r, const struct key *key,
                                const struct tree *value)
{
    static const char what[] = "a list of 'failure' and 'lost'";
    const struct tree *one = value->kind == TREE_LIST ? value->first : value;
    if (value->kind == TREE_MAP || one == NULL)
        return not_what(r, key, value, what);
    r->ask.retry_on_failure = r->ask.retry_on_lost = false;
    for (const struct tree *t = one; t != NULL; t = t->next) {
        if (is_word(t) && strcmp(t->text, "failure") == 0)
            r->ask.retry_on_failure = true;
        else if (is_word(t) && strcmp(t->text, "lost") == 0)
            r->ask.retry_on_lost = true;
        else
            return not_what(r, key, t, what);
        if (value->kind == TREE_WORD)
            break;
    }
    return FIRN_OK;
}

/* --- mappings ------------------------------------------------------------ */

static enum firn_status unknown(const struct reading *r,
                                const struct tree *value,
                                const struct key *keys, const char *inside)
{
    const char *names[64];
    size_t n = 0;
    for (; keys[n].name != NULL; n++)
        names[n] = keys[n].name;
    int near = str_nearest(value->key, names, n);
    return firn_fail(
        r->err, FIRN_EINVAL, "%s: line %ld: there is no key '%.60s'%s%s%s%s%s",
        r->where, value->line, value->key, inside[0] != '\0' ? " in '" : "",
        inside, inside[0] != '\0' ? "'" : "",
        near >= 0 ? "; did you mean " : "", near >= 0 ? names[near] : "");
}

static enum firn_status take_keys(struct reading *r, const struct tree *map,
                                  const struct key *keys, const char *inside)
{
    for (const struct tree *t = map->first; t != NULL; t = t->next) {
        const struct key *key = keys;
        while (key->name != NULL && strcmp(key->name, t->key) != 0)
            key++;
        if (key->name == NULL)
            return unknown(r, t, keys, inside);
        FIRN_TRY(key->take(r, key, t));
        if (key->line_at != 0)
            *(long *)((char *)r + key->line_at) = t->line;
    }
    return FIRN_OK;
}

static enum firn_status take_map(struct reading *r, const struct key *key,
                                 const struct tree *value)
{
    if (value->kind == TREE_MAP && value->n > 0)
        return take_keys(r, value, key->inside, key->name);
    struct firn_buf what = {0};
    buf_printf(&what, "a mapping such as {%s: ...}", key->inside[0].name);
    enum firn_status status = not_what(r, key, value, what.at);
    buf_release(&what);
    return status;
}

/* --- the keys ------------------------------------------------------------ */

#define LINE(field)       .line_at = offsetof(struct reading, field)
#define FROM(least, most) .min = (least), .max = (most)
#define KEY(key, kind, ...)                            \
    {                                                  \
        .name = #key, .take = take_##kind, __VA_ARGS__ \
    }
#define MAPPING(key, line) KEY(key, map, LINE(line), .inside = key##_keys)

static const struct key model_keys[] = {
    KEY(kind, word, AT(model_kind), .words = "llm"),
    KEY(name, text, AT(model_name)),
    KEY(hidden, whole, AT(shape.hidden), FROM(1, 1 << 20)),
    KEY(layers, whole, AT(shape.layers), FROM(1, 1 << 16)),
    KEY(heads, whole, AT(shape.heads), FROM(1, 1 << 16)),
    KEY(vocab, whole, AT(shape.vocab), FROM(1, 1 << 26)),
    KEY(seq, whole, AT(ask.seq), FROM(1, 1 << 24), LINE(seq_line)),
    {.name = NULL},
};

static const struct key freeze_keys[] = {
    KEY(rule, word, AT(ask.freeze), .words = "penalty|freezeout|off"),
    KEY(max, share, AT(ask.freeze_max), LINE(max_line)),
    {.name = NULL},
};

static const struct key elastic_keys[] = {
    KEY(consistency, word, AT(ask.consistency), .words = "D0|D1|D2"),
    KEY(threads, whole, AT(ask.threads), FROM(1, 1 << 16), LINE(threads_line)),
    {.name = NULL},
};

static const struct key finetune_keys[] = {
    KEY(base, text, AT(ask.base)),
    KEY(dataset, text, AT(ask.dataset)),
    KEY(objective, text, AT(ask.objective)),
    KEY(sharing, allowed, AT(ask.may_merge)),
    {.name = NULL},
};

static const struct key checkpoint_keys[] = {
    KEY(dir, path, AT(ask.ckpt_dir)),
    KEY(grace, time, AT(ask.grace_s)),
    KEY(interval, time, AT(ask.ckpt_every_s)),
    {.name = NULL},
};

static const struct key retry_keys[] = {
    KEY(on, on, LINE(on_line)),
    KEY(max, whole, AT(ask.retries_max), FROM(0, 100), LINE(retries_line)),
    {.name = NULL},
};

static const struct key target_keys[] = {
    KEY(epochs, count, AT(ask.target_epochs)),
    KEY(iterations, count, AT(ask.target_iterations)),
    KEY(metric, metric, AT(ask.target_metric)),
    {.name = NULL},
};

static const struct key top_keys[] = {
    KEY(name, name, AT(ask.name)),
    KEY(queue, name, AT(ask.queue)),
    KEY(priority, whole, AT(ask.priority), FROM(0, 100)),
    KEY(run, run, .at = 0),
    KEY(workdir, path, AT(ask.workdir)),
    KEY(env, env, .at = 0),
    KEY(gpus, gpus, LINE(gpus_line)),
    KEY(gpu, types, .at = 0),
    KEY(share, allowed, AT(ask.may_share)),
    KEY(app, name, AT(ask.app)),
    KEY(batch, whole, AT(ask.batch), FROM(1, 1000000000), LINE(batch_line)),
    KEY(memory, gib, AT(ask.mem_gib)),
    KEY(duration, time, AT(ask.duration_s)),
    KEY(deadline, date, AT(ask.deadline_s)),
    KEY(restart, allowed, AT(ask.may_restart)),
    MAPPING(model, model_line),
    MAPPING(freeze, freeze_line),
    MAPPING(elastic, elastic_line),
    MAPPING(finetune, finetune_line),
    MAPPING(checkpoint, checkpoint_line),
    MAPPING(retry, retry_line),
    MAPPING(target, target_line),
    {.name = NULL},
};

enum firn_status jobfile_take(struct reading *r, const struct tree *map)
{
    return take_keys(r, map, top_keys, "");
}
