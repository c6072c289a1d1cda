/* profile_read.c - text into a profile, strictly.
 *
 * One line at a time: a key, then words. Every number is finite and within
 * the bounds of the model it belongs to, stages rise, each key that may occur
 * once does. A failure names file and line, and leaves nothing behind.
 */
#include "base/lines.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/profiletext.h"
#include <math.h>
#include <string.h>

enum { SEEN_LINES = 32 };

struct reader {
    struct firn_profile *p;
    const char *where;
    long line;
    VEC(char *) words;
    VEC(double) numbers, end, sqr, var, layer;
    VEC(struct firn_profile_pair) pairs;
    VEC(struct firn_profile_frozen) frozen;
    unsigned seen_text, seen_numbers;
    bool has_synthetic, has_layers; /* layers: of the stage last read */
    struct firn_error *err;
};

#define WRONG(r, ...) (firn_fail((r)->err, FIRN_EINVAL, __VA_ARGS__), wrong(r))

/* Puts file and line before the sentence. */
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

/* The words of a line; blanks become ends. */
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
        return WRONG(r, "'time %.40s' is there twice", r->words.at[1]);
    if (p->ngpus == FIRN_PROFILE_TYPES)
        return WRONG(r, "more than %d GPU types", FIRN_PROFILE_TYPES);
    struct firn_profile_gpu gpu = {
        .time = {.gamma = 1}, .fit_mean = (double)NAN, .fit_max = (double)NAN};
    if (!str_copy(gpu.type, sizeof gpu.type, r->words.at[1]))
        return WRONG(r, "the name of the GPU type is too long");
    for (size_t i = 2; i < r->words.n; i += 2) {
        const struct profiletext_field *f = profiletext_find(r->words.at[i]);
        double value = 0;
        if (f == NULL)
            return WRONG(r, "'%.40s' is no parameter of step times",
                         r->words.at[i]);
        if (!number(r, f->name, r->words.at[i + 1], f->min, f->max, &value))
            return false;
        profiletext_set(f, &gpu.time, value);
    }
    const struct firn_itertime *t = &gpu.time;
    if (!(t->alpha_s + t->beta_s + t->floor_s > 0))
        return WRONG(r, "a step on %.40s takes no time", gpu.type);
    p->gpus[p->ngpus++] = gpu;
    return true;
}

/* A B, and C D that freezing all layers would save of them, or nothing. */
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

/* fit_error TYPE MEAN MAX ROWS, memory_mib TYPE BASE PER_SAMPLE and the same
 * for utilisation: behind the 'time' of their type. */
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

/* sharded TYPE NAME X ... and pipeline TYPE NAME X ...: behind 'time'. */
static bool read_more(struct reader *r)
{
    const struct profiletext_more *m = profiletext_mores;
    while (strcmp(m->key, r->words.at[0]) != 0)
        m++;
    struct firn_profile_gpu *gpu =
        r->words.n > 1 ? gpu_named(r, r->words.at[1]) : NULL;
    if (gpu == NULL)
        return WRONG(r, "'%s' needs a type that has its 'time' before it",
                     m->key);
    if (profiletext_get(m->needed, gpu) > 0)
        return WRONG(r, "'%s %.40s' is there twice", m->key, gpu->type);
    for (size_t i = 2; i < r->words.n; i += 2) {
        const struct profiletext_field *f = m->fields;
        double value = 0;
        while (f->name != NULL && strcmp(f->name, r->words.at[i]) != 0)
            f++;
        if (f->name == NULL || i + 1 == r->words.n)
            return WRONG(r, "'%.40s' is no number of '%s'", r->words.at[i],
                         m->key);
        if (!number(r, f->name, r->words.at[i + 1], f->min, f->max, &value))
            return false;
        profiletext_set(f, gpu, value);
    }
    if (!(profiletext_get(m->needed, gpu) > 0))
        return WRONG(r, "'%s' needs '%s'", m->key, m->needed->name);
    return true;
}

static bool read_batches(struct reader *r)
{
    struct firn_profile_stats *s = &r->p->stats;
    if (s->nbatches > 0)
        return WRONG(r, "'batches' is there twice");
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

/* layers V V ...: of the stage before. */
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
            return WRONG(r, "'beside %s' is there twice", pair.other);
    vec_add(&r->pairs, pair);
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

/* A line whose text is taken whole; 0: not such a key, 1: read, -1: wrong. */
static int read_text(struct reader *r, const char *key, const char *rest)
{
    for (unsigned i = 0; profiletext_lines[i].key != NULL; i++) {
        const struct profiletext_line *l = &profiletext_lines[i];
        if (strcmp(l->key, key) != 0)
            continue;
        if (r->seen_text & 1u << i)
            return WRONG(r, "'%s' is there twice", key) ? 1 : -1;
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
    for (unsigned i = 0; profiletext_numbers[i].key != NULL; i++) {
        const struct profiletext_number *n = &profiletext_numbers[i];
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
        {"fit_error", read_of_type},   {"memory_mib", read_of_type},
        {"utilisation", read_of_type}, {"sharded", read_more},
        {"pipeline", read_more},
    };
    char *text = str_trim(line);
    if (*text == '\0' || *text == '#')
        return true;
    char key[SEEN_LINES];
    size_t n = strcspn(text, " \t");
    if (n >= sizeof key)
        return WRONG(r, "'%.40s' is no key", text);
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
    return got != 0 ? got > 0 : WRONG(r, "'%s' is no key", key);
}

static double *kept(const double *at, size_t n)
{
    double *copy = mem_new(n, sizeof *copy);
    if (n > 0)
        memcpy(copy, at, n * sizeof *copy);
    return copy;
}

/* What can be said only at the end. */
static bool finish(struct reader *r)
{
    struct firn_profile *p = r->p;
    struct firn_profile_stats *s = &p->stats;
    for (unsigned i = 0; profiletext_lines[i].key != NULL; i++)
        if (!(r->seen_text & 1u << i))
            return WRONG(r, "'%s' is missing", profiletext_lines[i].key);
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
    p->restart_s = -1;
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
    vec_release(&r.frozen);
    mem_free(p);
    return is_good ? FIRN_OK : FIRN_EINVAL;
}
