/* jobfile.c - a job file: YAML in, what the user asks for out.
 *
 * jobfile_tree.c makes a tree of the text. Here each key is looked up in the
 * table of job fields (core/jobfields.def), its value is read by
 * job_field_read(), and then come the rules that depend on several keys:
 * defaults, the shape of a language model, contradictions.
 *
 * (1) The ask is filled in a copy and given out when all of it is good. (2)
 * Every sentence has file and line. (3) A key that is not in the table is
 * refused, with the nearest one.
 */
#include "daemon/jobfile.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "core/jobvalue.h"
#include "daemon/abilities.h"
#include "daemon/jobfile_tree.h"
#include "daemon/slurmask.h"
#include <firn/cluster.h>
#include <firn/peak.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 1024, GROUP_MAX = 32 };
static const double nominal_duration_s = 3600;

/* RANGE and EVENTS write two members. */
_Static_assert(offsetof(struct live_ask, gpus_max) ==
                   offsetof(struct live_ask, gpus_min) + sizeof(int),
               "gpus_max follows gpus_min");
_Static_assert(offsetof(struct live_ask, retry_on_lost) ==
                   offsetof(struct live_ask, retry_on_failure) + sizeof(bool),
               "retry_on_lost follows retry_on_failure");

/* A job file while it is read. Lines are 0 for keys that are not given;
 * group_line[f] is the line of the mapping that field f is in. */
struct reading {
    struct live_ask ask;
    struct firn_llm_shape shape;
    struct firn_arch arch; /* of `config` */
    char *model_name;
    const char *where;
    struct firn_error *err;
    long line[JOB_NFIELDS], group_line[JOB_NFIELDS];
};

/* --- failing -------------------------------------------------------------- */

/* "FILE: line 3: WHY". */
static enum firn_status contradiction(const struct reading *r, long line,
                                      const char *why)
{
    return firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: %s", r->where, line,
                     why);
}

/* "FILE: line 3: 'gpus' is 'many', not WHAT". */
static enum firn_status not_what(const struct reading *r, const char *key,
                                 const struct tree *value, const char *what)
{
    if (value->kind != TREE_WORD)
        return firn_fail(r->err, FIRN_EINVAL,
                         "%s: line %ld: '%s' is a %s, not %s", r->where,
                         value->line, key,
                         value->kind == TREE_LIST ? "list" : "mapping", what);
    if (value->text[0] == '\0')
        return firn_fail(r->err, FIRN_EINVAL,
                         "%s: line %ld: '%s' has no value; it should be %s",
                         r->where, value->line, key, what);
    return firn_fail(r->err, FIRN_EINVAL,
                     "%s: line %ld: '%s' is '%.100s', not %s", r->where,
                     value->line, key, value->text, what);
}

static bool is_word(const struct tree *value)
{
    return value->kind == TREE_WORD && value->text[0] != '\0';
}

/* --- values --------------------------------------------------------------- */

static enum firn_status take_command(struct reading *r, const char *key,
                                     const struct tree *value)
{
    char what[JOB_WHAT_MAX];
    if (value->kind == TREE_WORD)
        return job_field_read(&job_fields[JOB_FIELD_argv], value->text,
                              &r->ask.argv, what)
                   ? FIRN_OK
                   : not_what(r, key, value, what);
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

static enum firn_status take_env(struct reading *r, const char *key,
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
        const char *wrong = job_env_wrong(t->key);
        if (wrong != NULL)
            return firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: '%.60s': %s",
                             r->where, t->line, t->key, wrong);
        buf_printf(&text, "%s=%s", t->key, t->text);
        r->ask.env[i++] = text.at;
    }
    return FIRN_OK;
}

/* A name, or a list of names: `gpu` and `retry.on`. */
static enum firn_status take_names(struct reading *r,
                                   const struct job_field *field,
                                   const char *key, const struct tree *value,
                                   void *member)
{
    char what[JOB_WHAT_MAX] = "";
    bool is_list = value->kind == TREE_LIST;
    const struct tree *one = is_list ? value->first : value;
    job_field_read(field, "", NULL, what);
    if (value->kind == TREE_MAP || one == NULL ||
        (is_list && value->n > FIRN_TYPES_MAX))
        return not_what(r, key, value,
                        field->kind == JOB_TYPES
                            ? "a GPU type such as a100, or a list of at most 32"
                            : what);
    for (const struct tree *t = one; t != NULL; t = is_list ? t->next : NULL)
        if (t->kind != TREE_WORD ||
            !job_field_read(field, t->text, member, what))
            return not_what(r, key, t, what);
    return FIRN_OK;
}

/* The text of a config.json. A path is refused: it names a file of the user's
 * machine, which firnd may not have or may not be allowed to read. */
static enum firn_status take_config(struct reading *r, const char *key,
                                    const struct tree *value)
{
    struct firn_error inner = {0};
    char what[JOB_WHAT_MAX];
    const char *text = value->text + strspn(value->text, " \t\n");
    if (value->kind != TREE_WORD || *text != '{')
        return not_what(r, key, value,
                        "the text of a config.json, which firn submit and firn "
                        "plan put in the place of a path");
    if (!job_field_read(&job_fields[JOB_FIELD_config], text, &r->ask.config,
                        what))
        return not_what(r, key, value, what);
    if (firn_arch_read(&r->arch, (struct firn_bytes){text, strlen(text)},
                       &inner) == FIRN_OK)
        return FIRN_OK;
    return firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: '%s': %s", r->where,
                     value->line, key, inner.text);
}

static enum firn_status take_value(struct reading *r,
                                   const struct job_field *field,
                                   const char *key, const struct tree *value)
{
    char what[JOB_WHAT_MAX];
    enum job_field_id id = (enum job_field_id)(field - job_fields);
    void *member = live_ask_member(&r->ask, id);
    r->line[id] = value->line;
    switch (field->kind) {
    case JOB_COMMAND:
        return take_command(r, key, value);
    case JOB_ENV:
        return take_env(r, key, value);
    case JOB_TYPES:
    case JOB_WORDS:
    case JOB_EVENTS:
        return take_names(r, field, key, value, member);
    case JOB_CONFIG:
        return take_config(r, key, value);
    case JOB_MODEL:
        member = &r->model_name;
        break;
    default:
        break;
    }
    /* The text of a list or mapping is "", which no kind accepts. */
    return job_field_read(field, value->text, member, what)
               ? FIRN_OK
               : not_what(r, key, value, what);
}

/* Keys of 'model' that are no field of their own: with 'name' they become the
 * shape. */
static const struct {
    const char *key;
    struct job_field field;
    size_t at; /* in struct firn_llm_shape */
} shape_keys[] = {
    {"kind", {.kind = JOB_CHOICE, .words = "llm"}, 0},
    {"hidden",
     {.kind = JOB_WHOLE, .least = 1, .most = 1 << 20},
     offsetof(struct firn_llm_shape, hidden)},
    {"layers",
     {.kind = JOB_WHOLE, .least = 1, .most = 1 << 16},
     offsetof(struct firn_llm_shape, layers)},
    {"heads",
     {.kind = JOB_WHOLE, .least = 1, .most = 1 << 16},
     offsetof(struct firn_llm_shape, heads)},
    {"vocab",
     {.kind = JOB_WHOLE, .least = 1, .most = 1 << 26},
     offsetof(struct firn_llm_shape, vocab)},
};
enum { NSHAPE = sizeof shape_keys / sizeof *shape_keys };

/* True: the key is one of the shape's, and `status` says whether it is good. */
static bool take_shape(struct reading *r, const struct tree *value,
                       enum firn_status *status)
{
    char what[JOB_WHAT_MAX];
    for (size_t i = 0; i < NSHAPE; i++) {
        if (strcmp(shape_keys[i].key, value->key) != 0)
            continue;
        void *member = shape_keys[i].field.kind == JOB_WHOLE
                           ? (char *)&r->shape + shape_keys[i].at
                           : NULL;
        *status = FIRN_OK;
        if (!job_field_read(&shape_keys[i].field, value->text, member, what))
            *status = not_what(r, value->key, value, what);
        return true;
    }
    return false;
}

/* --- keys ----------------------------------------------------------------- */

/* The keys that may stand in a mapping, of the file ("") or of a group; a group
 * stands once among those of the file. */
static size_t known_keys(const char *group, char out[][GROUP_MAX], size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < JOB_NFIELDS && n < max; i++) {
        const char *key = job_fields[i].key, *last;
        if (key == NULL)
            continue;
        size_t length = job_field_group(&job_fields[i], &last);
        if (group[0] != '\0' &&
            (length != strlen(group) || strncmp(key, group, length) != 0))
            continue;
        if (group[0] == '\0' && length > 0)
            snprintf(out[n], GROUP_MAX, "%.*s", (int)length, key);
        else
            snprintf(out[n], GROUP_MAX, "%s", last);
        n += n == 0 || strcmp(out[n], out[n - 1]) != 0;
    }
    for (size_t i = 0; strcmp(group, "model") == 0 && i < NSHAPE; i++)
        if (n < max)
            snprintf(out[n++], GROUP_MAX, "%s", shape_keys[i].key);
    return n;
}

static enum firn_status unknown_key(const struct reading *r,
                                    const struct tree *value, const char *group)
{
    char keys[JOB_NFIELDS + NSHAPE][GROUP_MAX];
    const char *names[JOB_NFIELDS + NSHAPE];
    size_t n = known_keys(group, keys, JOB_NFIELDS + NSHAPE);
    for (size_t i = 0; i < n; i++)
        names[i] = keys[i];
    int near = str_nearest(value->key, names, n);
    return firn_fail(
        r->err, FIRN_EINVAL, "%s: line %ld: there is no key '%.60s'%s%s%s%s%s",
        r->where, value->line, value->key, group[0] != '\0' ? " in '" : "",
        group, group[0] != '\0' ? "'" : "", near >= 0 ? "; did you mean " : "",
        near >= 0 ? names[near] : "");
}

/* `lora: {rank: 16, on: [q, v]}` of 'model': the same as `lora: 16` and
 * `lora-on: [q, v]`. */
static enum firn_status take_lora(struct reading *r, const struct tree *map)
{
    static const struct {
        const char *key;
        enum job_field_id field;
    } keys[] = {{"rank", JOB_FIELD_lora},
                {"on", JOB_FIELD_lora_on},
                {"kind", JOB_FIELD_mode},
                {"precision", JOB_FIELD_lora_precision}};
    for (const struct tree *t = map->first; t != NULL; t = t->next) {
        size_t i = 0;
        while (i < sizeof keys / sizeof *keys &&
               strcmp(keys[i].key, t->key) != 0)
            i++;
        if (i == sizeof keys / sizeof *keys)
            return firn_fail(r->err, FIRN_EINVAL,
                             "%s: line %ld: there is no key '%.60s' in 'lora'; "
                             "it has rank, on, kind and precision",
                             r->where, t->line, t->key);
        if (r->line[keys[i].field] != 0)
            return contradiction(r, t->line, "this key is given twice");
        FIRN_TRY(take_value(r, &job_fields[keys[i].field], t->key, t));
    }
    return FIRN_OK;
}

/* Keys of 'model' that are no fields of that group. True: this is one, and
 * `status` says whether it is good. */
static bool take_of_model(struct reading *r, const struct tree *value,
                          enum firn_status *status)
{
    if (take_shape(r, value, status))
        return true;
    if (strcmp(value->key, "lora") == 0 && value->kind == TREE_MAP) {
        *status = take_lora(r, value);
        return true;
    }
    if (strcmp(value->key, "batch") != 0)
        return false;
    *status = r->line[JOB_FIELD_batch] != 0
                  ? contradiction(r, value->line, "'batch' is given twice")
                  : take_value(r, &job_fields[JOB_FIELD_batch], "batch", value);
    return true;
}

/* The members of a group, such as `retry: {max: 3}`. */
static enum firn_status take_group(struct reading *r, const struct tree *map)
{
    char keys[JOB_NFIELDS + NSHAPE][GROUP_MAX], path[2 * GROUP_MAX];
    enum firn_status status = FIRN_OK;
    if (map->key[0] == '\0' ||
        known_keys(map->key, keys, JOB_NFIELDS + NSHAPE) == 0)
        return unknown_key(r, map, "");
    if (map->kind != TREE_MAP || map->n == 0) {
        snprintf(path, sizeof path, "a mapping such as {%s: ...}", keys[0]);
        return not_what(r, map->key, map, path);
    }
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const char *key = job_fields[i].key, *last;
        size_t n = key != NULL ? job_field_group(&job_fields[i], &last) : 0;
        if (key != NULL && n == strlen(map->key) &&
            strncmp(key, map->key, n) == 0)
            r->group_line[i] = map->line;
    }
    for (const struct tree *t = map->first; t != NULL; t = t->next) {
        if (strcmp(map->key, "model") == 0 && take_of_model(r, t, &status)) {
            FIRN_TRY(status);
            continue;
        }
        snprintf(path, sizeof path, "%.31s.%.31s", map->key, t->key);
        const struct job_field *field = job_field_find(path);
        if (field == NULL)
            return unknown_key(r, t, map->key);
        FIRN_TRY(take_value(r, field, t->key, t));
    }
    return FIRN_OK;
}

static enum firn_status take_all(struct reading *r, const struct tree *map)
{
    for (const struct tree *t = map->first; t != NULL; t = t->next) {
        const struct job_field *field =
            strchr(t->key, '.') == NULL ? job_field_find(t->key) : NULL;
        if (field != NULL)
            FIRN_TRY(take_value(r, field, t->key, t));
        else
            FIRN_TRY(take_group(r, t));
    }
    return FIRN_OK;
}

/* --- rules over several keys ---------------------------------------------- */

#define LINE(member)  (r->line[JOB_FIELD_##member])
#define GROUP(member) (r->group_line[JOB_FIELD_##member])

/* The application of a config.json: its family, and a number that differs where
 * the parameters do; or the model's name, if it has one that an application may
 * have. */
static void name_config(struct reading *r)
{
    const struct firn_arch *a = &r->arch;
    char text[256];
    uint32_t hash = 2166136261U; /* FNV-1a */
    if (r->ask.app != NULL)
        return;
    snprintf(text, sizeof text, "%.0f %d %d %d %d %d %d %d %d %d %d %d %d",
             firn_arch_params(a), a->hidden, a->layers, a->heads, a->kv_heads,
             a->head_dim, a->ffn, a->vocab, a->experts, a->active,
             a->expert_ffn, a->kv_rank, a->window);
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    snprintf(text, sizeof text, "%.40s-%08x", a->family, (unsigned)hash);
    bool is_named = r->model_name != NULL && value_name(r->model_name) == NULL;
    r->ask.app = mem_strdup(is_named ? r->model_name : text);
}

/* The application of a language model is named by its shape, or by the shape's
 * numbers. */
static enum firn_status name_app(struct reading *r,
                                 const struct firn_llm_shape *named)
{
    const struct firn_llm_shape *s = &r->shape;
    struct firn_arch found;
    char text[80];
    bool is_named = s->hidden == named->hidden && s->layers == named->layers &&
                    s->heads == named->heads && s->vocab == named->vocab;
    if (r->ask.app == NULL) {
        snprintf(text, sizeof text, FIRN_LLM_PREFIX "%dx%dx%dx%d", s->hidden,
                 s->layers, s->heads, s->vocab);
        r->ask.app = mem_strdup(is_named ? r->model_name : text);
    } else if (LINE(gpus_min) == 0 &&
               firn_arch_find(&found, r->ask.app, NULL) != FIRN_OK) {
        return contradiction(r, GROUP(model),
                             "a model without 'gpus' has no other 'app': "
                             "remove 'app'");
    }
    return FIRN_OK;
}

/* The shape of a name: of firn/llm.h, or h, l, a and V of a model of
 * firn/arch.h, which the number of words of a vit is no part of. */
static enum firn_status shape_of(const char *name, struct firn_llm_shape *out,
                                 bool *is_arch, struct firn_error *err)
{
    struct firn_arch arch;
    *is_arch = false;
    if (firn_llm_find(out, name, NULL) == FIRN_OK)
        return FIRN_OK;
    FIRN_TRY(firn_arch_find(&arch, name, err));
    *is_arch = true;
    *out = (struct firn_llm_shape){.hidden = arch.hidden,
                                   .layers = arch.layers,
                                   .heads = arch.heads,
                                   .vocab = arch.vocab};
    return FIRN_OK;
}

/* Fills the shape from the model's name, checks it, and writes it as JSON. */
static enum firn_status finish_model(struct reading *r)
{
    struct firn_llm_shape *s = &r->shape, named = {0}, whole;
    struct firn_error inner = {0};
    bool is_arch = false;
    if (GROUP(model) == 0)
        return FIRN_OK;
    if (r->ask.config != NULL) {
        if (s->hidden + s->layers + s->heads + s->vocab > 0)
            return contradiction(r, LINE(config),
                                 "'config' has the model's numbers: remove "
                                 "'hidden', 'layers', 'heads' and 'vocab'");
        *s = (struct firn_llm_shape){.hidden = r->arch.hidden,
                                     .layers = r->arch.layers,
                                     .heads = r->arch.heads,
                                     .vocab = r->arch.vocab};
        is_arch = true;
    } else if (r->model_name != NULL &&
               shape_of(r->model_name, &named, &is_arch, &inner) == FIRN_OK) {
        bool is_changed = s->hidden + s->layers + s->heads + s->vocab > 0;
        if (is_arch && is_changed)
            return contradiction(r, GROUP(model),
                                 "this model takes no other numbers: remove "
                                 "'name', or 'hidden', 'layers', 'heads' and "
                                 "'vocab'");
        s->hidden = s->hidden > 0 ? s->hidden : named.hidden;
        s->layers = s->layers > 0 ? s->layers : named.layers;
        s->heads = s->heads > 0 ? s->heads : named.heads;
        s->vocab = s->vocab > 0 ? s->vocab : named.vocab;
    } else if (r->model_name != NULL && s->hidden == 0) {
        return contradiction(r, GROUP(model), inner.text);
    }
    whole = *s;
    if (!is_arch && firn_llm_complete(&whole, &inner) != FIRN_OK)
        return contradiction(r, GROUP(model), inner.text);
    if (LINE(seq) == 0)
        return contradiction(r, GROUP(model), "a model needs 'seq'");
    struct firn_buf json = {0};
    buf_puts(&json, "{\"kind\":\"llm\"");
    if (r->model_name != NULL) {
        buf_puts(&json, ",\"name\":");
        buf_json_string(&json, r->model_name);
    }
    if (r->ask.config != NULL) {
        buf_puts(&json, ",\"family\":");
        buf_json_string(&json, r->arch.family);
    }
    if (r->ask.config != NULL && r->arch.taken[0] != '\0') {
        buf_puts(&json, ",\"taken_for\":");
        buf_json_string(&json, r->arch.taken);
    }
    buf_printf(&json,
               ",\"hidden\":%d,\"layers\":%d,\"heads\":%d,\"vocab\":%d,"
               "\"seq\":%d}",
               s->hidden, s->layers, s->heads, s->vocab, r->ask.seq);
    mem_free(r->ask.model);
    r->ask.model = json.at;
    if (r->ask.config == NULL)
        return name_app(r, &named);
    name_config(r);
    return FIRN_OK;
}

static void set_word(char **at, const char *word)
{
    if (*at == NULL)
        *at = mem_strdup(word);
}

/* A job with a config.json, or with words of firn/peak.h alone, has the
 * defaults of `firn memory`; they are written down, so that plan and trainer
 * have the same. Other models have those of Frenzy. */
static void finish_words(struct reading *r)
{
    struct live_ask *ask = &r->ask;
    bool has_adapter = LINE(lora) != 0 ||
                       (ask->mode != NULL && strcmp(ask->mode, "full") != 0);
    if (LINE(config) + LINE(mode) + LINE(lora) + LINE(lora_on) +
            LINE(lora_precision) + LINE(loss) + LINE(zero) +
            LINE(accumulation) + LINE(offload) ==
        0)
        return;
    set_word(&ask->precision, has_adapter ? "bf16" : "amp");
    set_word(&ask->optimizer, "adamw");
    set_word(&ask->attention, "sdpa");
}

static bool is_program(const char *word, const char *name)
{
    const char *slash = strrchr(word, '/');
    const char *base = slash != NULL ? slash + 1 : word;
    size_t n = strlen(name);
    return strncmp(base, name, n) == 0 &&
           strspn(base + n, "0123456789.") == strlen(base + n);
}

/* Does the command start a process for each GPU itself? "torchrun ...",
 * "python3 -m torch.distributed.run ...", "accelerate launch ...", "deepspeed
 * ...", "uv run torchrun ...". */
static bool starts_processes(char *const *argv)
{
    static const char *const modules[] = {
        "torch.distributed.run", "torch.distributed.launch",
        "accelerate.commands.launch", "deepspeed", "deepspeed.launcher.runner"};
    bool is_python = is_program(argv[0], "python");
    if (argv[1] == NULL)
        return false;
    if (is_program(argv[0], "uv") && strcmp(argv[1], "run") == 0 &&
        argv[2] != NULL)
        return starts_processes(argv + 2);
    if (is_program(argv[0], "torchrun") || is_program(argv[0], "deepspeed"))
        return true;
    if (is_program(argv[0], "accelerate"))
        return strcmp(argv[1], "launch") == 0;
    for (size_t i = 1; is_python && argv[i] != NULL && argv[i][0] == '-'; i++)
        for (size_t k = 0; strcmp(argv[i], "-m") == 0 && argv[i + 1] != NULL &&
                           k < sizeof modules / sizeof *modules;
             k++)
            if (strcmp(argv[i + 1], modules[k]) == 0)
                return true;
    return false;
}

/* Reads a default of the table; those of lists have commas between. */
static void read_default(const struct job_field *field, const char *text,
                         void *member)
{
    char one[64], what[JOB_WHAT_MAX];
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, text);
        if (!job_field_read(field, one, member, what))
            FIRN_BUG("default '%s' of %s is not %s", one, field->name, what);
        text += n + (text[n] == ',');
    }
}

static void finish_defaults(struct reading *r)
{
    struct live_ask *ask = &r->ask;
    for (int i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *field = &job_fields[i];
        void *member = live_ask_member(ask, (enum job_field_id)i);
        bool is_chosen = i == JOB_FIELD_gpus_min && GROUP(model) != 0;
        if (r->line[i] == 0 && r->group_line[i] != 0 && field->in_group)
            read_default(field, field->in_group, member);
        else if (r->line[i] == 0 && !is_chosen)
            read_default(field, field->standard, member);
    }
    live_ask_complete(ask);
    ask->is_elastic = ask->gpus_min < ask->gpus_max || GROUP(consistency) != 0;
    ask->can_checkpoint = GROUP(consistency) != 0 || GROUP(grace_s) != 0;
}

/* Words that a newer firnd accepted and this one does not know count as not
 * said. */
static struct firn_training training_of(const struct live_ask *ask)
{
    char rank[16] = "", passes[16] = "";
    const char *const said[FIRN_TRAINING_SETTINGS] = {
        [FIRN_TRAINING_PRECISION] = ask->precision,
        [FIRN_TRAINING_OPTIMIZER] = ask->optimizer,
        [FIRN_TRAINING_ATTENTION] = ask->attention,
        [FIRN_TRAINING_CHECKPOINTING] = ask->checkpointing,
        [FIRN_TRAINING_LOSS] = ask->loss,
        [FIRN_TRAINING_MODE] = ask->mode,
        [FIRN_TRAINING_ZERO] = ask->zero,
        [FIRN_TRAINING_LORA_PRECISION] = ask->lora_precision,
        [FIRN_TRAINING_LORA] = rank,
        [FIRN_TRAINING_LORA_ON] = ask->lora_on,
        [FIRN_TRAINING_OFFLOAD] = ask->offload,
        [FIRN_TRAINING_ACCUMULATION] = passes,
    };
    struct firn_training training = {0};
    if (ask->lora > 0)
        snprintf(rank, sizeof rank, "%d", ask->lora);
    if (ask->accumulation > 0)
        snprintf(passes, sizeof passes, "%d", ask->accumulation);
    for (int i = 0; i < FIRN_TRAINING_SETTINGS; i++)
        if (said[i] != NULL)
            firn_training_set(&training, (enum firn_training_setting)i,
                              said[i]);
    return training;
}

/* The model with all its words makes sense: firn/peak.h takes it. */
static enum firn_status check_model(const struct reading *r)
{
    struct firn_error inner = {0};
    struct firn_peak_job peak = {.seq = r->ask.seq, .micro_batch = 1};
    if (GROUP(model) == 0)
        return FIRN_OK;
    if (r->ask.config[0] != '\0')
        peak.arch = r->arch;
    else if (firn_arch_find(&peak.arch, r->ask.app, NULL) != FIRN_OK)
        return FIRN_OK; /* numbers alone */
    struct firn_training training = training_of(&r->ask);
    firn_training_peak(&training, &peak);
    if (LINE(lora) != 0 && peak.adapter == FIRN_ADAPTER_NONE)
        return contradiction(r, LINE(lora),
                             "'lora' and 'mode: full' contradict each other");
    if (firn_peak_check(&peak, &inner) != FIRN_OK)
        return contradiction(r, GROUP(model), inner.text);
    return FIRN_OK;
}

static enum firn_status finish(struct reading *r)
{
    const struct live_ask *ask = &r->ask;
    if (ask->argv == NULL)
        return contradiction(r, 1, "the key 'run' is missing: the command");
    FIRN_TRY(finish_model(r));
    if (GROUP(model) != 0 && LINE(gpus_min) == 0 && LINE(batch) == 0)
        return contradiction(r, GROUP(model),
                             "a model without 'gpus' needs 'batch'");
    finish_words(r);
    if (starts_processes(ask->argv))
        set_word(&r->ask.launch, "one");
    finish_defaults(r);
    FIRN_TRY(check_model(r));
    struct firn_error inner = {0};
    if (slurmask_check(ask, &inner) != FIRN_OK)
        return contradiction(r, GROUP(slurm_account), inner.text);
    if (LINE(threads) != 0 && ask->threads < ask->gpus_max)
        return contradiction(r, LINE(threads),
                             "'threads' must be at least the most 'gpus'");
    if (LINE(freeze_max) != 0 && strcmp(ask->freeze, "off") == 0)
        return contradiction(r, LINE(freeze_max),
                             "'max' and 'rule: off' contradict each other");
    if (GROUP(base) != 0 && ask->base[0] == '\0')
        return contradiction(r, GROUP(base), "'finetune' needs 'base'");
    return FIRN_OK;
}

enum firn_status jobfile_read(struct live_ask *out, struct firn_bytes text,
                              const char *where, struct firn_error *err)
{
    struct arena arena = {0};
    struct tree *tree = NULL;
    struct reading r = {.where = where, .err = err};
    enum firn_status status = tree_read(&arena, text, where, &tree, err);
    if (status == FIRN_OK)
        status = take_all(&r, tree);
    if (status == FIRN_OK)
        status = finish(&r);
    if (status == FIRN_OK)
        *out = r.ask;
    else
        live_ask_release(&r.ask);
    mem_free(r.model_name);
    arena_release(&arena);
    return status;
}

/* --- what core schedules by ----------------------------------------------- */

/* Its results are the same bits on one type of GPU only, or may be: D2 counts
 * if the scan of its model says so, or its user insists (EasyScale, 3.3). */
static bool is_of_one_type(const struct live_ask *ask)
{
    if (strcmp(ask->consistency, "D2") == 0)
        return strcmp(ask->scan, "passed") != 0 &&
               strcmp(ask->scan, "insist") != 0;
    return strcmp(ask->consistency, "D0") == 0 ||
           strcmp(ask->consistency, "D1") == 0;
}

/* A job shares GPUs only if it can be stopped to end the sharing. */
static bool may_share(const struct live_ask *ask)
{
    return ask->may_share && (ask->can_checkpoint || ask->may_restart);
}

/* When two jobs are parted, each goes on from its own checkpoint. */
static bool may_merge(const struct live_ask *ask)
{
    return ask->may_merge && ask->can_checkpoint && ask->base[0] != '\0' &&
           ask->dataset[0] != '\0';
}

void jobfile_spec(const struct live_ask *ask, double submit_s,
                  struct firn_job_spec *out)
{
    *out = (struct firn_job_spec){
        .name = ask->name,
        .app = ask->app,
        .group = ask->queue,
        .submit_s = submit_s,
        .gpus = ask->gpus_max,
        .gpus_min = ask->gpus_min,
        .gpus_max = ask->gpus_max,
        .duration_s =
            ask->duration_s > 0 ? ask->duration_s : nominal_duration_s,
        .is_nominal = !(ask->duration_s > 0),
        .restart_s = -1,
        .mem_gib = ask->mem_gib,
        .batch = ask->batch,
        .priority = ask->priority,
        .types = ask->types,
        .threads = ask->threads,
        .seq = ask->seq,
        .frozen_max = ask->freeze_max,
        .may_share = may_share(ask),
        .may_merge = may_merge(ask),
        .one_type = is_of_one_type(ask) || ask->same_type,
        .one_node = ask->one_node,
        .keeps_gpus = !ask->can_checkpoint && !ask->may_restart,
        .user = ask->user,
        .project = ask->project,
        .deadline_s = ask->deadline_s,
        .iterations = (double)ask->target_iterations,
        .best_effort = strcmp(ask->guarantee, "none") == 0,
        .training = training_of(ask),
        .config = ask->config,
        .cannot = FIRN_CAN_ALL & ~abilities_asked(ask)};
}
