/* message.c - reports and orders as JSON, by one table of fields each.
 *
 *   {"step":120,"epoch":2,"progress":0.25,"part_s":{"forward":0.012},
 *    "nfrozen":3,"psi":0.8,"variance":[1.5,0.25],"embedding":[0.5,0]}
 *   {"nfrozen":4,"stop":1}
 *
 * A field is a name, a place in the struct, a kind and the most it may be;
 * writing and reading walk the same table, hence cannot disagree.
 *
 * Invariants:
 * (1) what is written reads back equal, bit by bit; more than a field's most
 *     is written as the most;
 * (2) a number that was read is finite and within [0, most], or unknown (-1);
 *     loss and metric may have any sign, variances too (unbiased estimates of
 *     something small);
 * (3) counts are whole and below 2^53, so no double lies between two of them.
 */
#include "base/jsonread.h"
#include "base/jsonwrite.h"
#include <firn/message.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 8 }; /* levels of nesting */

enum kind { WHOLE64, WHOLE, FLAG, NUMBER, SIGNED };

struct field {
    const char *name;
    size_t at;
    enum kind kind;
    double least, most;
};

#define AT(field) #field, offsetof(struct firn_trainer_report, field)
static const struct field report_fields[] = {
    {AT(step), WHOLE64, 0, 9007199254740992.0}, /* (3) */
    {AT(epoch), WHOLE64, 0, 9007199254740992.0},
    {AT(progress), NUMBER, 0, 1},
    {AT(effective), NUMBER, 0, 9007199254740992.0},
    {AT(step_s), NUMBER, 0, 1e9},
    {AT(loss), SIGNED, -DBL_MAX, DBL_MAX},
    {AT(metric), SIGNED, -DBL_MAX, DBL_MAX},
    {AT(memory_mib), NUMBER, 0, 1e12},
    {AT(utilisation), NUMBER, 0, 1},
    {AT(batch), WHOLE, 0, 1e9},
    {AT(passes), WHOLE, 0, 1e9},
    {AT(nfrozen), WHOLE, 0, 1e9},
    {AT(nthreads), WHOLE, 0, 1e9},
    {AT(nprocs), WHOLE, 0, 1e9},
    {AT(psi), NUMBER, 0, 1},
    {AT(prepare_s), NUMBER, 0, 1e9},
};
#undef AT
#define AT(field) #field, offsetof(struct firn_orders, field)
static const struct field order_fields[] = {
    {AT(nfrozen), WHOLE, 0, 1e9},
    {AT(passes), WHOLE, 1, 1e9},
    {AT(stop), FLAG, 0, 1},
    {AT(batch), WHOLE, 1, 1e9},
};
#undef AT
static const size_t nreport = sizeof report_fields / sizeof *report_fields;
static const size_t norder = sizeof order_fields / sizeof *order_fields;
static const uint64_t most_steps = (uint64_t)1 << 53; /* (3) */
static const struct field part_field = {"part_s", 0, NUMBER, 0, 1e9};

static const char *const part_names[FIRN_STEP_NPARTS] = {
    [FIRN_STEP_DATA] = "data",         [FIRN_STEP_FORWARD] = "forward",
    [FIRN_STEP_BACKWARD] = "backward", [FIRN_STEP_SWITCH] = "switch",
    [FIRN_STEP_REDUCE] = "reduce",     [FIRN_STEP_UPDATE] = "update",
};

const char *firn_step_part_name(enum firn_step_part part)
{
    return (size_t)part < FIRN_STEP_NPARTS ? part_names[part] : "?";
}

struct firn_trainer_report firn_trainer_report_unknown(void)
{
    struct firn_trainer_report r = {.progress = -1,
                                    .effective = -1,
                                    .step_s = -1,
                                    .loss = -1,
                                    .metric = -1,
                                    .memory_mib = -1,
                                    .utilisation = -1,
                                    .batch = -1,
                                    .passes = -1,
                                    .nfrozen = -1,
                                    .nthreads = -1,
                                    .nprocs = -1,
                                    .psi = -1,
                                    .prepare_s = -1,
                                    .can = -1};
    for (size_t i = 0; i < FIRN_STEP_NPARTS; i++)
        r.part_s[i] = -1;
    return r;
}

struct firn_orders firn_orders_none(void)
{
    return (struct firn_orders){
        .nfrozen = -1, .passes = -1, .stop = -1, .batch = -1};
}

/* --- writing -------------------------------------------------------------- */

static void write_number(struct jsonwrite *w, const struct field *f,
                         const char *key, double value)
{
    if (isfinite(value) && value >= 0)
        jsonwrite_double(w, key, fmin(value, f->most));
}

static void write_fields(struct jsonwrite *w, const struct field *fields,
                         size_t n, const void *from)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        const char *at = (const char *)from + f->at;
        if (f->kind == WHOLE64) {
            uint64_t value = 0;
            memcpy(&value, at, sizeof value);
            jsonwrite_count(w, f->name,
                            value < most_steps ? value : most_steps);
        } else if (f->kind == WHOLE || f->kind == FLAG) {
            int value = 0;
            memcpy(&value, at, sizeof value);
            if (value >= f->least)
                jsonwrite_count(w, f->name, (uint64_t)fmin(value, f->most));
        } else {
            double value = 0;
            memcpy(&value, at, sizeof value);
            write_number(w, f, f->name, value);
        }
    }
}

static void write_parts(struct jsonwrite *w,
                        const struct firn_trainer_report *report)
{
    bool any = false;
    for (size_t i = 0; i < FIRN_STEP_NPARTS; i++)
        any = any || report->part_s[i] >= 0;
    if (!any)
        return;
    jsonwrite_open(w, "part_s", '{');
    for (size_t i = 0; i < FIRN_STEP_NPARTS; i++)
        write_number(w, &part_field, part_names[i], report->part_s[i]);
    jsonwrite_close(w, '}');
}

static void write_variance(struct jsonwrite *w,
                           const struct firn_trainer_report *report)
{
    if (report->variance == NULL || report->nlayers > FIRN_MESSAGE_LAYERS)
        return;
    for (size_t i = 0; i < report->nlayers; i++)
        if (!isfinite(report->variance[i]))
            return;
    jsonwrite_open(w, "variance", '[');
    for (size_t i = 0; i < report->nlayers; i++)
        jsonwrite_double(w, NULL, report->variance[i]);
    jsonwrite_close(w, ']');
}

static void write_embedding(struct jsonwrite *w,
                            const struct firn_trainer_report *report)
{
    int n = report->nembedding;
    if (n < 1 || n > FIRN_MESSAGE_EMBEDDING)
        return;
    for (int i = 0; i < n; i++)
        if (!(report->embedding[i] >= 0) || !isfinite(report->embedding[i]))
            return;
    jsonwrite_open(w, "embedding", '[');
    for (int i = 0; i < n; i++)
        jsonwrite_double(w, NULL, report->embedding[i]);
    jsonwrite_close(w, ']');
}

static void write_report(struct jsonwrite *w,
                         const struct firn_trainer_report *report)
{
    jsonwrite_open(w, NULL, '{');
    write_fields(w, report_fields, nreport, report);
    if (report->can >= 0) {
        char words[FIRN_CAN_TEXT];
        firn_can_write(words, (unsigned)report->can);
        jsonwrite_text(w, "can", words);
    }
    write_parts(w, report);
    write_variance(w, report);
    write_embedding(w, report);
    jsonwrite_close(w, '}');
}

size_t firn_trainer_report_write(char *out, size_t max,
                                 const struct firn_trainer_report *report)
{
    struct jsonwrite measure = {0};
    write_report(&measure, report);
    if (measure.n < max) {
        struct jsonwrite w = {.out = out, .max = max};
        write_report(&w, report);
        out[w.n] = '\0';
    }
    return measure.n;
}

static void write_orders(struct jsonwrite *w, const struct firn_orders *orders)
{
    jsonwrite_open(w, NULL, '{');
    write_fields(w, order_fields, norder, orders);
    jsonwrite_close(w, '}');
}

size_t firn_orders_write(char *out, size_t max,
                         const struct firn_orders *orders)
{
    struct jsonwrite measure = {0};
    write_orders(&measure, orders);
    if (measure.n < max) {
        struct jsonwrite w = {.out = out, .max = max};
        write_orders(&w, orders);
        out[w.n] = '\0';
    }
    return measure.n;
}

/* --- reading -------------------------------------------------------------- */

/* A number within its field's limits; -1 for null. */
static double read_value(struct jsonread *in, const struct field *f,
                         const char *name)
{
    double value = -1;
    bool whole = f->kind != NUMBER && f->kind != SIGNED;
    if (f->kind == FLAG)
        jsonread_flag(in, &value, NAN);
    else
        jsonread_number(in, &value, NAN);
    if (in->status != FIRN_OK || isnan(value))
        return -1;
    if (!(value >= f->least && value <= f->most))
        jsonread_fail(in, "'%s' is %g, not within %g and %g", name, value,
                      f->least, f->most);
    else if (whole && floor(value) != value)
        jsonread_fail(in, "'%s' is %g, not a whole number", name, value);
    return value;
}

static void read_field(struct jsonread *in, const struct field *f, void *into)
{
    double value = read_value(in, f, f->name);
    char *at = (char *)into + f->at;
    if (in->status != FIRN_OK)
        return;
    if (f->kind == WHOLE64) {
        uint64_t count = value > 0 ? (uint64_t)value : 0;
        memcpy(at, &count, sizeof count);
    } else if (f->kind == WHOLE || f->kind == FLAG) {
        int count = (int)value;
        memcpy(at, &count, sizeof count);
    } else {
        memcpy(at, &value, sizeof value);
    }
}

static const struct field *find(const struct field *fields, size_t n,
                                const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static void read_parts(struct jsonread *in, double part_s[FIRN_STEP_NPARTS])
{
    struct jsonread_keys keys = {0};
    char key[32];
    jsonread_enter(in, '{');
    while (jsonread_member(in, &keys, key, sizeof key)) {
        size_t part = 0;
        while (part < FIRN_STEP_NPARTS && strcmp(part_names[part], key) != 0)
            part++;
        if (part < FIRN_STEP_NPARTS)
            part_s[part] = read_value(in, &part_field, key);
        else
            jsonread_skip(in);
    }
}

static size_t read_variance(struct jsonread *in, double *variance, size_t nmax)
{
    size_t n = 0;
    jsonread_enter(in, '[');
    while (jsonread_element(in)) {
        double value = 0;
        if (n == nmax) {
            jsonread_fail(in, "the variances of more than %zu layers", nmax);
            break;
        }
        jsonread_number(in, &value, 0);
        variance[n++] = value;
    }
    return n;
}

static int read_embedding(struct jsonread *in, double *embedding)
{
    static const struct field place = {"embedding", 0, NUMBER, 0, DBL_MAX};
    int n = 0;
    jsonread_enter(in, '[');
    while (jsonread_element(in)) {
        if (n == FIRN_MESSAGE_EMBEDDING) {
            jsonread_fail(in, "an embedding of more than %d numbers",
                          FIRN_MESSAGE_EMBEDDING);
            break;
        }
        embedding[n] = read_value(in, &place, "embedding");
        if (embedding[n] < 0)
            embedding[n] = 0; /* null */
        n++;
    }
    return n;
}

/* Words with commas between them; null is not known. The words of a newer
 * trainer that this scheduler does not know are passed over. */
static int read_can(struct jsonread *in)
{
    enum jsonread_event event = jsonread_next(in);
    struct firn_bytes token = in->token;
    unsigned can = 0;
    if (event == JSONREAD_WORD && token.n == 4 && token.at[0] == 'n')
        return -1;
    if (event != JSONREAD_STRING) {
        jsonread_fail(in, "'can' is not a text of words, \"resize,passes\"");
        return -1;
    }
    for (size_t from = 1; from + 1 < token.n;) {
        size_t to = from;
        while (to + 1 < token.n && token.at[to] != ',')
            to++;
        can |= firn_can_named(token.at + from, to - from);
        from = to + 1;
    }
    return (int)can;
}

static enum firn_status begin(struct jsonread *in, const char *text, size_t n,
                              struct firn_error *err)
{
    if (n > FIRN_MESSAGE_BYTES)
        return firn_fail(err, FIRN_EINVAL, "%zu bytes, and %d are the most", n,
                         FIRN_MESSAGE_BYTES);
    jsonread_init(in, text, n, err);
    in->depth_max = DEPTH_MAX;
    jsonread_enter(in, '{');
    return in->status;
}

static enum firn_status read_report(struct firn_trainer_report *report,
                                    double *variance, size_t nmax,
                                    struct jsonread *in)
{
    struct jsonread_keys keys = {0};
    char key[32];
    while (jsonread_member(in, &keys, key, sizeof key)) {
        const struct field *f = find(report_fields, nreport, key);
        if (f != NULL) {
            read_field(in, f, report);
        } else if (strcmp(key, "part_s") == 0) {
            read_parts(in, report->part_s);
        } else if (strcmp(key, "can") == 0) {
            report->can = read_can(in);
        } else if (strcmp(key, "embedding") == 0) {
            report->nembedding = read_embedding(in, report->embedding);
        } else if (strcmp(key, "variance") == 0) {
            report->nlayers = read_variance(in, variance, nmax);
            report->variance = variance;
        } else {
            jsonread_skip(in);
        }
    }
    jsonread_end(in);
    return in->status;
}

enum firn_status firn_trainer_report_read(struct firn_trainer_report *out,
                                          double *variance, size_t nmax,
                                          const char *text, size_t n,
                                          struct firn_error *err)
{
    struct jsonread in;
    struct firn_trainer_report report = firn_trainer_report_unknown();
    if (begin(&in, text, n, err) != FIRN_OK ||
        read_report(&report, variance, nmax, &in) != FIRN_OK) {
        firn_fail_in(err, "report");
        return FIRN_EINVAL;
    }
    *out = report;
    return FIRN_OK;
}

enum firn_status firn_orders_read(struct firn_orders *out, const char *text,
                                  size_t n, struct firn_error *err)
{
    struct jsonread in;
    struct jsonread_keys keys = {0};
    struct firn_orders orders = firn_orders_none();
    char key[32];
    if (begin(&in, text, n, err) == FIRN_OK) {
        while (jsonread_member(&in, &keys, key, sizeof key)) {
            const struct field *f = find(order_fields, norder, key);
            if (f != NULL)
                read_field(&in, f, &orders);
            else
                jsonread_skip(&in);
        }
        jsonread_end(&in);
        if (in.status == FIRN_OK) {
            *out = orders;
            return FIRN_OK;
        }
    }
    firn_fail_in(err, "orders");
    return FIRN_EINVAL;
}
