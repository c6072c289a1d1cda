/* profiletext.c - a profile as text: read strictly, written back.
 *
 * The format is described in docs/profiles.md. Reader and writer share the
 * tables of keys below, so they cannot disagree. The reader takes one line at
 * a time: a key, then its values. Every number is finite and within the bounds
 * of the model it belongs to, stages rise, and each key that may occur once
 * does. A failure names file and line and changes nothing. The writer gives six
 * digits, a hundred times finer than any measurement here repeats; numbers
 * that are not known or within 1e-12 of their default are not written.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/str.h"
#include "base/vec.h"
#include <firn/profile.h>
#include <math.h>
#include <string.h>

/* A number of struct firn_itertime or struct firn_profile_gpu. */
struct field {
    const char *name;
    size_t at;       /* its offset in the struct */
    double min, max; /* bounds of a valid value */
    double unless;   /* the default, which is not written */
    bool is_int;
};

/* A line KEY TYPE NAME X NAME X ... of one GPU type. The offsets are in struct
 * firn_profile_gpu, and the field `needed` must be above 0. The table ends with
 * a NULL key, its fields with a NULL name. */
struct type_line {
    const char *key;
    const struct field *fields, *needed;
};

/* A line of free text, and where it goes. The table ends with a NULL key. */
struct text_line {
    const char *key;
    size_t at, size;
};

/* A number of struct firn_profile, on a line of its own. */
struct number_line {
    const char *key;
    size_t at;
    double unless; /* the value of a number that is not known */
};

#define FIELD(name, min, max, unless)                                        \
    {                                                                        \
#name, offsetof(struct firn_itertime, name), min, max, unless, false \
    }
#define COUNT(name)                                                  \
    {                                                                \
#name, offsetof(struct firn_itertime, name), 0, 1e6, 0, true \
    }
#define SECONDS(name) FIELD(name, 0, 1e9, 0)
#define LAW(name) \
    SECONDS(name.alpha_s), SECONDS(name.beta_s), SECONDS(name.crowd_s)

static const struct field time_fields[] = {
    SECONDS(alpha_s),
    SECONDS(beta_s),
    SECONDS(curve_s),
    SECONDS(floor_s),
    FIELD(crowd, 0, 1e3, 0),
    FIELD(phi, 0, 0.9, 0),
    FIELD(phi_fixed, 0, 1, 0),
    FIELD(gamma, 1, 1e3, 1),
    LAW(local),
    LAW(pair),
    LAW(far),
    SECONDS(byte_s),
    FIELD(message_bytes, 0, 1e18, 0),
    SECONDS(flop_alpha_s),
    FIELD(flop_beta, 0, 1e3, 0),
    FIELD(flop_gamma, 0, 10, 0),
    SECONDS(sync_alpha_s),
    FIELD(sync_beta, 0, 1e3, 0),
    FIELD(batch_min, 0, 1e9, 0),
    FIELD(batch_max, 0, 1e9, 0),
    FIELD(theta_min, 0, 1, 0),
    COUNT(gpus_max),
    COUNT(nodes_max),
};

#define MORE(part, name, min, max)                                        \
    {                                                                     \
#name, offsetof(struct firn_profile_gpu, part.name), min, max, 0, \
            false                                                         \
    }
#define MORE_LAW(part, name)                                           \
    MORE(part, name.alpha_s, 0, 1e9), MORE(part, name.beta_s, 0, 1e9), \
        MORE(part, name.crowd_s, 0, 1e9)

static const struct field sharded[] = {
    MORE(sharded, gamma_lm, 1, 1e3),
    MORE(sharded, para_alpha_s, 0, 1e9),
    MORE(sharded, para_beta, 0, 1e3),
    MORE_LAW(sharded, local),
    MORE_LAW(sharded, pair),
    MORE_LAW(sharded, far),
    {.name = NULL},
};

static const struct field pipeline[] = {
    MORE(pipeline, micro_batch, 1, 1e6),
    MORE(pipeline, act_s, 0, 1e9),
    MORE(pipeline, far_act_s, 0, 1e9),
    {.name = NULL},
};

static const struct type_line type_lines[] = {
    {"sharded", sharded, &sharded[0]},
    {"pipeline", pipeline, &pipeline[0]},
    {NULL, NULL, NULL},
};

static const struct text_line text_lines[] = {
    {"app", offsetof(struct firn_profile, app), FIRN_PROFILE_NAME},
    {"source", offsetof(struct firn_profile, source), FIRN_PROFILE_NAME},
    {"origin", offsetof(struct firn_profile, origin), FIRN_PROFILE_TEXT},
    {"hardware", offsetof(struct firn_profile, hardware), FIRN_PROFILE_TEXT},
    {"method", offsetof(struct firn_profile, method), FIRN_PROFILE_TEXT},
    {NULL, 0, 0},
};

static const struct number_line number_lines[] = {
    {"batch_initial", offsetof(struct firn_profile, batch0), 0},
    {"batch_max", offsetof(struct firn_profile, batch_max), 0},
    {"local_min", offsetof(struct firn_profile, local_min), 0},
    {"local_max", offsetof(struct firn_profile, local_max), 0},
    {"epochs", offsetof(struct firn_profile, epochs), 0},
    {"progress", offsetof(struct firn_profile, progress), 0},
    {"layer_count", offsetof(struct firn_profile, layers), 0},
    {"states_mib", offsetof(struct firn_profile, states_mib), 0},
    {"restart_s", offsetof(struct firn_profile, restart_s), -1},
    {"resize_s", offsetof(struct firn_profile, resize.pause_s), -1},
    {"resize_prepare_s", offsetof(struct firn_profile, resize.prepare_s), 0},
    {"resize_slowdown", offsetof(struct firn_profile, resize.slowdown), 0},
    {NULL, 0, 0},
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof time_fields / sizeof *time_fields; i++)
        if (strcmp(time_fields[i].name, name) == 0)
            return &time_fields[i];
    return NULL;
}

static double get_field(const struct field *field, const void *of)
{
    const char *at = (const char *)of + field->at;
    return field->is_int ? *(const int *)(const void *)at
                         : *(const double *)(const void *)at;
}

static void set_field(const struct field *field, void *of, double value)
{
    char *at = (char *)of + field->at;
    if (field->is_int)
        *(int *)(void *)at = (int)value;
    else
        *(double *)(void *)at = value;
}

/* --- reading -------------------------------------------------------------- */

enum { SEEN_LINES = 32 };

struct reader {
    struct firn_profile *p;
    const char *where;
    long line;
    VEC(char *) words;
    VEC(double) numbers, end, sqr, var, layer;
    VEC(struct firn_profile_pair) pairs;
    VEC(struct firn_profile_sharing) sharing;
    VEC(struct firn_profile_executors) executors;
    VEC(struct firn_profile_frozen) frozen;
    unsigned seen_text, seen_numbers;
    bool has_synthetic;
    bool has_layers; /* the stage last read has its `layers` line */
    struct firn_error *err;
};

#define WRONG(r, ...) (firn_fail((r)->err, FIRN_EINVAL, __VA_ARGS__), wrong(r))

/* Puts file and line in front of the error text; returns false. */
static bool wrong(struct reader *r)
{
    char text[FIRN_ERROR_TEXT];
    if (r->err == NULL)
        return false;
    str_copy(text, sizeof text, r->err->text);
    firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: %.400s", r->where, r->line,
              text);
    return false;
}

/* Cuts a line into words in place. */
static void split(struct reader *r, char *text)
{
    r->words.n = 0;
    for (char *c = text;;) {
        while (*c == ' ' || *c == '\t')
            *c++ = '\0';
        if (*c == '\0')
            return;
        vec_add(&r->words, c);
        while (*c != '\0' && *c != ' ' && *c != '\t')
            c++;
    }
}

static bool number(struct reader *r, const char *what, const char *text,
                   double min, double max, double *out)
{
    double value;
    if (!str_double(text, &value) || value < min || value > max)
        return WRONG(r, "%.40s is '%.40s'; it must be a number from %g to %g",
                     what, text, min, max);
    *out = value;
    return true;
}

/* Numbers from word `from` on. */
static bool numbers(struct reader *r, size_t from, double min)
{
    r->numbers.n = 0;
    for (size_t i = from; i < r->words.n; i++) {
        double value = 0;
        if (!number(r, r->words.at[0], r->words.at[i], min, 1e300, &value))
            return false;
        vec_add(&r->numbers, value);
    }
    return true;
}

static struct firn_profile_gpu *gpu_named(struct reader *r, const char *type)
{
    struct firn_profile *p = r->p;
    for (size_t i = 0; i < p->ngpus; i++)
        if (str_equal_nocase(p->gpus[i].type, type))
            return &p->gpus[i];
    return NULL;
}

/* time TYPE NAME VALUE NAME VALUE ... */
static bool read_time(struct reader *r)
{
    struct firn_profile *p = r->p;
    if (r->words.n < 2 || r->words.n % 2 != 0)
        return WRONG(r, "'time' takes a GPU type, then names and numbers");
    if (gpu_named(r, r->words.at[1]) != NULL)
        return WRONG(r, "'time %.40s' is given twice", r->words.at[1]);
    if (p->ngpus == FIRN_PROFILE_TYPES)
        return WRONG(r, "more than %d GPU types", FIRN_PROFILE_TYPES);
    struct firn_profile_gpu gpu = {
        .time = {.gamma = 1}, .fit_mean = (double)NAN, .fit_max = (double)NAN};
    if (!str_copy(gpu.type, sizeof gpu.type, r->words.at[1]))
        return WRONG(r, "the name of the GPU type is too long");
    for (size_t i = 2; i < r->words.n; i += 2) {
        const struct field *f = find_field(r->words.at[i]);
        double value = 0;
        if (f == NULL)
            return WRONG(r, "'%.40s' is not a parameter of step times",
                         r->words.at[i]);
        if (!number(r, f->name, r->words.at[i + 1], f->min, f->max, &value))
            return false;
        set_field(f, &gpu.time, value);
    }
    const struct firn_itertime *t = &gpu.time;
    if (!(t->alpha_s + t->beta_s + t->floor_s > 0))
        return WRONG(r, "a step on %.40s takes no time", gpu.type);
    p->gpus[p->ngpus++] = gpu;
    return true;
}

/* The four numbers BASE PER_SAMPLE SAVED SAVED_PER_SAMPLE, or only the first
 * two; SAVED is what freezing all layers saves. */
static bool read_usage(struct reader *r, double *const at[4])
{
    const double *v = r->numbers.at;
    if (r->numbers.n != 2 && r->numbers.n != 4)
        return WRONG(r, "'%s' takes a type and 2 or 4 numbers", r->words.at[0]);
    if (r->numbers.n == 4 && (v[2] > v[0] || v[3] > v[1]))
        return WRONG(r, "'%s' would save more than there is", r->words.at[0]);
    for (size_t i = 0; i < r->numbers.n; i++)
        *at[i] = v[i];
    return true;
}

/* fit_error TYPE MEAN MAX ROWS, memory_mib TYPE BASE PER_SAMPLE ... and
 * utilisation TYPE BASE PER_SAMPLE ..., after the 'time' of their type. */
static bool read_of_type(struct reader *r)
{
    bool is_memory = r->words.at[0][0] == 'm';
    bool is_util = r->words.at[0][0] == 'u';
    struct firn_profile_gpu *gpu =
        r->words.n > 1 ? gpu_named(r, r->words.at[1]) : NULL;
    if (gpu == NULL)
        return WRONG(r, "'%s' needs a type that has its 'time' before it",
                     r->words.at[0]);
    if (!numbers(r, 2, 0))
        return false;
    const double *v = r->numbers.at;
    if (is_memory)
        return read_usage(r,
                          (double *const[]){&gpu->mem_mib, &gpu->mem_sample_mib,
                                            &gpu->mem_saved_mib,
                                            &gpu->mem_saved_sample_mib});
    if (is_util)
        return read_usage(r, (double *const[]){&gpu->util, &gpu->util_sample,
                                               &gpu->util_saved,
                                               &gpu->util_saved_sample});
    if (r->numbers.n != 3)
        return WRONG(r, "'%s' takes a type and 3 numbers", r->words.at[0]);
    if (v[2] > 1e9 || v[2] != floor(v[2]))
        return WRONG(r, "the rows of a fit are a count");
    gpu->fit_mean = v[0];
    gpu->fit_max = v[1];
    gpu->fit_rows = (long)v[2];
    return true;
}

/* sharded TYPE NAME X ... and pipeline TYPE NAME X ..., after 'time'. */
static bool read_more(struct reader *r)
{
    const struct type_line *m = type_lines;
    while (strcmp(m->key, r->words.at[0]) != 0)
        m++;
    struct firn_profile_gpu *gpu =
        r->words.n > 1 ? gpu_named(r, r->words.at[1]) : NULL;
    if (gpu == NULL)
        return WRONG(r, "'%s' needs a type that has its 'time' before it",
                     m->key);
    if (get_field(m->needed, gpu) > 0)
        return WRONG(r, "'%s %.40s' is given twice", m->key, gpu->type);
    for (size_t i = 2; i < r->words.n; i += 2) {
        const struct field *f = m->fields;
        double value = 0;
        while (f->name != NULL && strcmp(f->name, r->words.at[i]) != 0)
            f++;
        if (f->name == NULL || i + 1 == r->words.n)
            return WRONG(r, "'%.40s' is not a parameter of '%s'",
                         r->words.at[i], m->key);
        if (!number(r, f->name, r->words.at[i + 1], f->min, f->max, &value))
            return false;
        set_field(f, gpu, value);
    }
    if (!(get_field(m->needed, gpu) > 0))
        return WRONG(r, "'%s' needs '%s'", m->key, m->needed->name);
    return true;
}

static bool read_batches(struct reader *r)
{
    struct firn_profile_stats *s = &r->p->stats;
    if (s->nbatches > 0)
        return WRONG(r, "'batches' is given twice");
    if (!numbers(r, 1, 1e-9))
        return false;
    for (size_t i = 1; i < r->numbers.n; i++)
        if (!(r->numbers.at[i] > r->numbers.at[i - 1]))
            return WRONG(r, "'batches' must rise");
    if (r->numbers.n == 0)
        return WRONG(r, "'batches' names none");
    s->nbatches = r->numbers.n;
    s->batch = mem_new(s->nbatches, sizeof *s->batch);
    memcpy(s->batch, r->numbers.at, s->nbatches * sizeof *s->batch);
    return true;
}

static bool stage_is_whole(struct reader *r)
{
    if (r->end.n > 0 && r->p->stats.nlayers > 0 && !r->has_layers)
        return WRONG(r, "the stage before has no 'layers'");
    return true;
}

/* stage END G V G V ... */
static bool read_stage(struct reader *r)
{
    struct firn_profile_stats *s = &r->p->stats;
    if (s->nbatches == 0)
        return WRONG(r, "'stage' before 'batches'");
    if (!stage_is_whole(r) || !numbers(r, 1, -1e300))
        return false;
    if (r->numbers.at == NULL || r->numbers.n != 1 + 2 * s->nbatches)
        return WRONG(r, "'stage' has %zu numbers, not 1 + 2 x %zu",
                     r->numbers.n, s->nbatches);
    const double *v = r->numbers.at;
    if (!(v[0] > (r->end.n > 0 ? r->end.at[r->end.n - 1] : 0)))
        return WRONG(r, "stages must rise");
    vec_add(&r->end, v[0]);
    for (size_t j = 0; j < s->nbatches; j++) {
        vec_add(&r->sqr, v[1 + 2 * j]);
        vec_add(&r->var, v[2 + 2 * j]);
    }
    r->has_layers = false;
    return true;
}

/* layers V V ...: the layers of the stage on the line before. */
static bool read_layers(struct reader *r)
{
    struct firn_profile_stats *s = &r->p->stats;
    if (r->end.n == 0 || r->has_layers)
        return WRONG(r, "'layers' must follow a 'stage'");
    if (!numbers(r, 1, -1e300))
        return false;
    if (r->numbers.n == 0 || (r->end.n > 1 && r->numbers.n != s->nlayers))
        return WRONG(r, "'layers' has %zu numbers, not %zu", r->numbers.n,
                     s->nlayers);
    s->nlayers = r->numbers.n;
    for (size_t j = 0; j < s->nlayers; j++)
        vec_add(&r->layer, r->numbers.at[j]);
    r->has_layers = true;
    return true;
}

/* beside APPLICATION XI */
static bool read_beside(struct reader *r)
{
    struct firn_profile_pair pair = {.xi = 1};
    if (r->words.n != 3 ||
        !str_copy(pair.other, sizeof pair.other, r->words.at[1]))
        return WRONG(r, "'beside' takes an application and a number");
    if (!number(r, "beside", r->words.at[2], 1, 1e6, &pair.xi))
        return false;
    for (size_t i = 0; i < r->pairs.n; i++)
        if (strcmp(r->pairs.at[i].other, pair.other) == 0)
            return WRONG(r, "'beside %s' is given twice", pair.other);
    vec_add(&r->pairs, pair);
    return true;
}

/* beside_at TYPE SAMPLES APPLICATION SAMPLES XI */
static bool read_beside_at(struct reader *r)
{
    struct firn_profile_sharing row = {.xi = 1};
    if (r->words.n != 6 ||
        !str_copy(row.type, sizeof row.type, r->words.at[1]) ||
        !str_copy(row.other, sizeof row.other, r->words.at[3]))
        return WRONG(r, "'beside_at' takes a GPU type, samples, an application "
                        "with its samples, and a number");
    if (!number(r, "beside_at", r->words.at[2], 0, 1e9, &row.samples) ||
        !number(r, "beside_at", r->words.at[4], 0, 1e9, &row.other_samples) ||
        !number(r, "beside_at", r->words.at[5], 1, 1e6, &row.xi))
        return false;
    vec_add(&r->sharing, row);
    return true;
}

/* executors TYPE NUMBER SPEED MEM_MIB SAMPLES */
static bool read_executors(struct reader *r)
{
    struct firn_profile_executors row = {.number = 2};
    double number_of = 0;
    if (r->words.n != 6 || !str_copy(row.type, sizeof row.type, r->words.at[1]))
        return WRONG(r, "'executors' takes a GPU type, a number, a speed, MiB "
                        "and samples");
    if (!number(r, "executors", r->words.at[2], 2, 64, &number_of) ||
        !number(r, "speed", r->words.at[3], 1e-3, number_of, &row.speed) ||
        !number(r, "MiB", r->words.at[4], 0, 1e9, &row.mem_mib) ||
        !number(r, "samples", r->words.at[5], 1e-9, 1e9, &row.samples))
        return false;
    row.number = (int)number_of;
    if (row.number != number_of)
        return WRONG(r, "executors are a whole number");
    vec_add(&r->executors, row);
    return true;
}

/* frozen LAYERS THETA OMEGA: the first is 0 1 1. */
static bool read_frozen(struct reader *r)
{
    if (!numbers(r, 1, 0))
        return false;
    if (r->numbers.n != 3)
        return WRONG(r, "'frozen' takes layers and two shares");
    const double *v = r->numbers.at;
    struct firn_profile_frozen row = {v[0], v[1], v[2]};
    struct firn_profile_frozen was = {-1, 1, 1};
    if (r->frozen.n > 0)
        was = r->frozen.at[r->frozen.n - 1];
    if (r->frozen.n == 0 && (v[0] > 0 || v[1] < 1 || v[2] < 1))
        return WRONG(r, "'frozen' begins with 0 1 1");
    if (!(row.frozen > was.frozen) || row.theta > was.theta ||
        row.omega > was.omega)
        return WRONG(r, "'frozen' must rise in layers and not in shares");
    vec_add(&r->frozen, row);
    return true;
}

/* stats_of SOURCE/APPLICATION */
static bool read_stats_of(struct reader *r)
{
    struct firn_profile *p = r->p;
    if (r->words.n != 2 || p->stats_of[0] != '\0' ||
        !str_copy(p->stats_of, sizeof p->stats_of, r->words.at[1]))
        return WRONG(r, "'stats_of' takes SOURCE/APPLICATION, once");
    return true;
}

/* layers_of SOURCE/APPLICATION */
static bool read_layers_of(struct reader *r)
{
    struct firn_profile *p = r->p;
    if (r->words.n != 2 || p->layers_of[0] != '\0' ||
        !str_copy(p->layers_of, sizeof p->layers_of, r->words.at[1]))
        return WRONG(r, "'layers_of' takes SOURCE/APPLICATION, once");
    return true;
}

/* A line of free text. Returns 0 for another key, 1 when read, -1 on error. */
static int read_text(struct reader *r, const char *key, const char *rest)
{
    for (unsigned i = 0; text_lines[i].key != NULL; i++) {
        const struct text_line *l = &text_lines[i];
        if (strcmp(l->key, key) != 0)
            continue;
        if (r->seen_text & 1u << i)
            return WRONG(r, "'%s' is given twice", key) ? 1 : -1;
        r->seen_text |= 1u << i;
        if (*rest == '\0' || !str_copy((char *)r->p + l->at, l->size, rest))
            return WRONG(r, "'%s' is %s", key, *rest ? "too long" : "empty")
                       ? 1
                       : -1;
        return 1;
    }
    return 0;
}

static int read_number(struct reader *r)
{
    for (unsigned i = 0; number_lines[i].key != NULL; i++) {
        const struct number_line *n = &number_lines[i];
        if (strcmp(n->key, r->words.at[0]) != 0)
            continue;
        if (r->seen_numbers & 1u << i || r->words.n != 2)
            return WRONG(r, "'%s' takes one number, once", n->key) ? 1 : -1;
        r->seen_numbers |= 1u << i;
        double *at = (double *)(void *)((char *)r->p + n->at);
        double min = n->unless < 0 ? 0 : 1e-9;
        return number(r, n->key, r->words.at[1], min, 1e15, at) ? 1 : -1;
    }
    return 0;
}

static bool read_synthetic(struct reader *r)
{
    bool is_yes = r->words.n == 2 && strcmp(r->words.at[1], "yes") == 0;
    bool is_no = r->words.n == 2 && strcmp(r->words.at[1], "no") == 0;
    if (r->has_synthetic || (!is_yes && !is_no))
        return WRONG(r, "'synthetic' is yes or no, once");
    r->p->is_synthetic = is_yes;
    r->has_synthetic = true;
    return true;
}

static bool read_line(struct reader *r, char *line)
{
    static const struct {
        const char *key;
        bool (*read)(struct reader *r);
    } keys[] = {
        {"time", read_time},           {"batches", read_batches},
        {"stage", read_stage},         {"layers", read_layers},
        {"synthetic", read_synthetic}, {"beside", read_beside},
        {"frozen", read_frozen},       {"stats_of", read_stats_of},
        {"layers_of", read_layers_of}, {"fit_error", read_of_type},
        {"memory_mib", read_of_type},  {"utilisation", read_of_type},
        {"sharded", read_more},        {"pipeline", read_more},
        {"beside_at", read_beside_at}, {"executors", read_executors},
    };
    char *text = str_trim(line);
    if (*text == '\0' || *text == '#')
        return true;
    char key[SEEN_LINES];
    size_t n = strcspn(text, " \t");
    if (n >= sizeof key)
        return WRONG(r, "'%.40s' is not a key", text);
    memcpy(key, text, n);
    key[n] = '\0';
    int got = read_text(r, key, str_trim(text + n));
    if (got != 0)
        return got > 0;
    split(r, text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0)
            return keys[i].read(r);
    got = read_number(r);
    return got != 0 ? got > 0 : WRONG(r, "'%s' is not a key", key);
}

static double *kept(const double *at, size_t n)
{
    double *copy = mem_new(n, sizeof *copy);
    if (n > 0)
        memcpy(copy, at, n * sizeof *copy);
    return copy;
}

/* The checks that need the whole text, then hands the arrays over. */
static bool finish(struct reader *r)
{
    struct firn_profile *p = r->p;
    struct firn_profile_stats *s = &p->stats;
    for (unsigned i = 0; text_lines[i].key != NULL; i++)
        if (!(r->seen_text & 1u << i))
            return WRONG(r, "'%s' is missing", text_lines[i].key);
    if (!r->has_synthetic)
        return WRONG(r, "'synthetic' is missing");
    if (!stage_is_whole(r))
        return false;
    if (s->nbatches > 0 && r->end.n == 0)
        return WRONG(r, "'batches' without a 'stage'");
    if (s->nbatches > 0 && !(p->batch0 > 0))
        return WRONG(r, "statistics need 'batch_initial'");
    if (r->frozen.n > 0 && !(p->layers > r->frozen.at[r->frozen.n - 1].frozen))
        return WRONG(r, "'frozen' needs a 'layer_count' above all its layers");
    if (p->stats_of[0] != '\0' && s->nbatches > 0)
        return WRONG(r, "'stats_of' and statistics of its own");
    p->nfrozen = r->frozen.n;
    p->frozen = r->frozen.at;
    r->frozen.at = NULL;
    p->npairs = r->pairs.n;
    p->pairs = r->pairs.at;
    r->pairs.at = NULL;
    p->nsharing = r->sharing.n;
    p->sharing = r->sharing.at;
    r->sharing.at = NULL;
    p->nexecutors = r->executors.n;
    p->executors = r->executors.at;
    r->executors.at = NULL;
    s->nstages = r->end.n;
    s->end = kept(r->end.at, r->end.n);
    s->grad_sqr = kept(r->sqr.at, r->sqr.n);
    s->grad_var = kept(r->var.at, r->var.n);
    s->layer_var = kept(r->layer.at, r->layer.n);
    return true;
}

enum firn_status firn_profile_parse(struct firn_profile *out,
                                    struct firn_bytes text, const char *where,
                                    struct firn_error *err)
{
    struct firn_profile *p = mem_new(1, sizeof *p);
    struct reader r = {.p = p, .where = where, .err = err};
    struct lines *in = lines_from(text);
    bool is_good = true;
    p->restart_s = p->resize.pause_s = -1;
    for (char *line; is_good && (line = lines_next(in)) != NULL;) {
        r.line = lines_number(in);
        is_good = lines_bad(in) ? WRONG(&r, "the line is too long or has a NUL")
                                : read_line(&r, line);
    }
    is_good = is_good && finish(&r);
    lines_close(in);
    if (is_good)
        *out = *p;
    else
        firn_profile_release(p);
    vec_release(&r.words);
    vec_release(&r.numbers);
    vec_release(&r.end);
    vec_release(&r.sqr);
    vec_release(&r.var);
    vec_release(&r.layer);
    vec_release(&r.pairs);
    vec_release(&r.sharing);
    vec_release(&r.executors);
    vec_release(&r.frozen);
    mem_free(p);
    return is_good ? FIRN_OK : FIRN_EINVAL;
}

/* --- writing -------------------------------------------------------------- */

static void put(struct firn_buf *out, double value)
{
    buf_printf(out, " %.6g", value);
}

/* A line of two numbers, or of four if freezing saves something. */
static void put_usage(struct firn_buf *out, const char *key, const char *type,
                      const double v[4])
{
    if (!(v[0] > 0) && !(v[1] > 0))
        return;
    buf_printf(out, "%s %s", key, type);
    for (int i = 0; i < (v[2] > 0 || v[3] > 0 ? 4 : 2); i++)
        put(out, v[i]);
    buf_putc(out, '\n');
}

/* The lines `sharded` and `pipeline`. */
static void put_more(const struct firn_profile_gpu *gpu, struct firn_buf *out)
{
    for (const struct type_line *m = type_lines; m->key; m++) {
        if (!(get_field(m->needed, gpu) > 0))
            continue;
        buf_printf(out, "%s %s", m->key, gpu->type);
        for (const struct field *f = m->fields; f->name; f++) {
            double value = get_field(f, gpu);
            if (fabs(value) < 1e-12)
                continue;
            buf_printf(out, " %s", f->name);
            put(out, value);
        }
        buf_putc(out, '\n');
    }
}

static void put_gpu(const struct firn_profile_gpu *gpu, struct firn_buf *out)
{
    buf_printf(out, "time %s", gpu->type);
    for (size_t i = 0; i < sizeof time_fields / sizeof *time_fields; i++) {
        const struct field *f = &time_fields[i];
        double value = get_field(f, &gpu->time);
        if (fabs(value - f->unless) < 1e-12)
            continue;
        buf_printf(out, " %s", f->name);
        put(out, value);
    }
    buf_putc(out, '\n');
    if (gpu->fit_rows > 0)
        buf_printf(out, "fit_error %s %.4f %.4f %ld\n", gpu->type,
                   gpu->fit_mean, gpu->fit_max, gpu->fit_rows);
    put_usage(out, "memory_mib", gpu->type,
              (double[]){gpu->mem_mib, gpu->mem_sample_mib, gpu->mem_saved_mib,
                         gpu->mem_saved_sample_mib});
    put_usage(out, "utilisation", gpu->type,
              (double[]){gpu->util, gpu->util_sample, gpu->util_saved,
                         gpu->util_saved_sample});
    put_more(gpu, out);
}

static void put_stats(const struct firn_profile_stats *s, struct firn_buf *out)
{
    if (s->nbatches == 0)
        return;
    buf_puts(out, "# stage: its last progress, then |g|^2 and tr(Sigma) at "
                  "each of these batches\nbatches");
    for (size_t i = 0; i < s->nbatches; i++)
        put(out, s->batch[i]);
    buf_putc(out, '\n');
    for (size_t i = 0; i < s->nstages; i++) {
        buf_printf(out, "stage %.9g", s->end[i]);
        for (size_t j = 0; j < s->nbatches; j++) {
            put(out, s->grad_sqr[i * s->nbatches + j]);
            put(out, s->grad_var[i * s->nbatches + j]);
        }
        buf_putc(out, '\n');
        if (s->nlayers == 0)
            continue;
        buf_puts(out, "layers");
        for (size_t j = 0; j < s->nlayers; j++)
            buf_printf(out, " %.4g", s->layer_var[i * s->nlayers + j]);
        buf_putc(out, '\n');
    }
}

void firn_profile_write(const struct firn_profile *profile,
                        struct firn_buf *out)
{
    const char *base = (const char *)profile;
    for (const struct text_line *l = text_lines; l->key; l++)
        buf_printf(out, "%s %s\n", l->key, base + l->at);
    buf_printf(out, "synthetic %s\n", profile->is_synthetic ? "yes" : "no");
    for (const struct number_line *n = number_lines; n->key; n++) {
        double value = *(const double *)(const void *)(base + n->at);
        if (value == n->unless)
            continue;
        buf_printf(out, "%s %.9g\n", n->key, value);
    }
    for (size_t i = 0; i < profile->ngpus; i++)
        put_gpu(&profile->gpus[i], out);
    for (size_t i = 0; i < profile->npairs; i++)
        buf_printf(out, "beside %s %.4g\n", profile->pairs[i].other,
                   profile->pairs[i].xi);
    for (size_t i = 0; i < profile->nsharing; i++) {
        const struct firn_profile_sharing *row = &profile->sharing[i];
        buf_printf(out, "beside_at %s %.9g %s %.9g %.4g\n", row->type,
                   row->samples, row->other, row->other_samples, row->xi);
    }
    for (size_t i = 0; i < profile->nexecutors; i++) {
        const struct firn_profile_executors *row = &profile->executors[i];
        buf_printf(out, "executors %s %d %.6g %.6g %.9g\n", row->type,
                   row->number, row->speed, row->mem_mib, row->samples);
    }
    for (size_t i = 0; i < profile->nfrozen; i++) {
        buf_puts(out, "frozen");
        put(out, profile->frozen[i].frozen);
        put(out, profile->frozen[i].theta);
        put(out, profile->frozen[i].omega);
        buf_putc(out, '\n');
    }
    if (profile->stats_of[0] != '\0')
        buf_printf(out, "stats_of %s\n", profile->stats_of);
    if (profile->layers_of[0] != '\0')
        buf_printf(out, "layers_of %s\n", profile->layers_of);
    put_stats(&profile->stats, out);
}
