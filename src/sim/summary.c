/* summary.c - results as a table for people, as JSON and as CSV.
 *
 * One table of fields drives JSON, CSV and the log's summary block. The table
 * for people is laid out by hand: times in units, ratios in per cent, and
 * only what is deterministic, so that its bytes are repeatable.
 *
 * (1) Numbers in JSON and CSV read back as the same double.
 * (2) A number that is not finite is null in JSON and empty in CSV.
 * (3) `cpu_s` appears in JSON only.
 */
#include "sim/summary.h"
#include "base/buf.h"
#include "base/str.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(member)                                      \
    .offset = offsetof(struct firn_sim_result, member), \
    .size = sizeof(((struct firn_sim_result *)NULL)->member)
#define FIELD(type, member)                                  \
    {                                                        \
        .name = #member, .kind = SUMMARY_##type, AT(member), \
    }
#define CLASS(i, label)                                           \
    {.name = "jobs_gpus_" label,                                  \
     .kind = SUMMARY_COUNT,                                       \
     AT(classes[i].jobs),                                         \
     .class_of = label,                                           \
     .class_key = "jobs"},                                        \
    {                                                             \
        .name = "jct_mean_s_gpus_" label, .kind = SUMMARY_NUMBER, \
        AT(classes[i].jct_mean_s), .class_of = label,             \
        .class_key = "jct_mean_s",                                \
    }

/* The order is that of the output. The fields of the classes stand together:
 * JSON makes one array of them. */
static const struct summary_field fields[] = {
    FIELD(TEXT, trace),
    FIELD(TEXT, policy),
    FIELD(TEXT, cluster),
    FIELD(SEED, seed),
    FIELD(NUMBER, restart_s),
    FIELD(COUNT, jobs),
    FIELD(COUNT, unfinished),
    FIELD(COUNT, rejected),
    FIELD(COUNT, bad_rows),
    FIELD(COUNT, ignored_rows),
    FIELD(COUNT, unsorted_rows),
    FIELD(COUNT, nominal_jobs),
    FIELD(NUMBER, jct_mean_s),
    FIELD(NUMBER, jct_p50_s),
    FIELD(NUMBER, jct_p90_s),
    FIELD(NUMBER, jct_p99_s),
    FIELD(NUMBER, jct_max_s),
    CLASS(0, "1"),
    CLASS(1, "2-4"),
    CLASS(2, "5-8"),
    CLASS(3, "9+"),
    FIELD(NUMBER, queue_mean_s),
    FIELD(NUMBER, queue_p50_s),
    FIELD(NUMBER, queue_p99_s),
    FIELD(NUMBER, makespan_s),
    FIELD(NUMBER, gpu_alloc_ratio),
    FIELD(NUMBER, gpu_util_ratio),
    FIELD(NUMBER, fragmentation),
    FIELD(COUNT, restarts),
    FIELD(COUNT, failures),
    FIELD(NUMBER, rho_mean),
    FIELD(NUMBER, rho_p50),
    FIELD(NUMBER, rho_p99),
    FIELD(NUMBER, rho_max),
    FIELD(NUMBER, unfair_share),
    FIELD(NUMBER, gpu_s_given),
    FIELD(NUMBER, gpu_s_useful),
    FIELD(NUMBER, gpu_s_overhead),
    FIELD(NUMBER, gpu_s_lost),
    FIELD(COUNT, rounds),
    FIELD(COUNT, events),
    FIELD(COUNT, steps),
    FIELD(TEXT, world),
    {.name = "cpu_s", .kind = SUMMARY_NUMBER, AT(cpu_s), .is_measured = true},
};

enum { NFIELDS = sizeof fields / sizeof *fields };

const struct summary_field *summary_fields(size_t *n)
{
    *n = NFIELDS;
    return fields;
}

static const void *place(const struct summary_field *field,
                         const struct firn_sim_result *result)
{
    return (const char *)result + field->offset;
}

static double number(const struct summary_field *field,
                     const struct firn_sim_result *result)
{
    return *(const double *)place(field, result);
}

void summary_value(const struct summary_field *field,
                   const struct firn_sim_result *result, struct firn_buf *out)
{
    switch (field->kind) {
    case SUMMARY_TEXT:
        buf_puts(out, place(field, result));
        break;
    case SUMMARY_SEED:
        buf_printf(out, "%llu",
                   (unsigned long long)*(const uint64_t *)place(field, result));
        break;
    case SUMMARY_COUNT:
        buf_printf(out, "%ld", *(const long *)place(field, result));
        break;
    case SUMMARY_NUMBER:
        buf_double(out, number(field, result));
        break;
    }
}

static bool read_number(const char *text, double *out)
{
    static const struct {
        const char *text;
        double value;
    } odd[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (strcmp(text, odd[i].text) == 0) {
            *out = odd[i].value;
            return true;
        }
    return str_double(text, out);
}

static bool read_seed(const char *text, uint64_t *out)
{
    if (*text == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

enum firn_status summary_read(const struct summary_field *field,
                              const char *text, struct firn_sim_result *out,
                              struct firn_error *err)
{
    void *at = (char *)out + field->offset;
    bool ok = false;
    switch (field->kind) {
    case SUMMARY_TEXT:
        ok = str_copy(at, field->size, text);
        break;
    case SUMMARY_SEED:
        ok = read_seed(text, at);
        break;
    case SUMMARY_COUNT:
        ok = str_int(text, 0, INT64_MAX, at);
        break;
    case SUMMARY_NUMBER:
        ok = read_number(text, at);
        break;
    }
    if (!ok)
        return firn_fail(err, FIRN_EINVAL, "'%s' is '%.60s'", field->name,
                         text);
    return FIRN_OK;
}

static void json_value(const struct summary_field *field,
                       const struct firn_sim_result *result,
                       struct firn_buf *out)
{
    if (field->kind == SUMMARY_TEXT)
        buf_json_string(out, place(field, result));
    else if (field->kind == SUMMARY_NUMBER)
        buf_json_double(out, number(field, result));
    else
        summary_value(field, result, out);
}

/* The key with what stands before it: the classes become objects of an
 * array, opened at the first field of one and closed behind its last. */
static void json_key(size_t i, struct firn_buf *out)
{
    const struct summary_field *field = &fields[i];
    const char *before = i ? fields[i - 1].class_of : NULL;
    if (!field->class_of) {
        buf_printf(out, "%s\"%s\":", i ? "," : "", field->name);
        return;
    }
    if (!before)
        buf_puts(out, ",\"jct_by_gpus\":[");
    if (!before || strcmp(before, field->class_of) != 0)
        buf_printf(out, "%s{\"class\":\"%s\"", before ? "," : "",
                   field->class_of);
    buf_printf(out, ",\"%s\":", field->class_key);
}

static void json_close(size_t i, struct firn_buf *out)
{
    const char *class_of = fields[i].class_of;
    const char *after = i + 1 < NFIELDS ? fields[i + 1].class_of : NULL;
    if (!class_of)
        return;
    if (!after || strcmp(after, class_of) != 0)
        buf_putc(out, '}');
    if (!after)
        buf_putc(out, ']');
}

static void print_json(const struct firn_sim_result *results, size_t n,
                       struct firn_buf *out)
{
    buf_puts(out, "{\"results\":[");
    for (size_t r = 0; r < n; r++) {
        buf_puts(out, r ? ",\n{" : "\n{");
        for (size_t i = 0; i < NFIELDS; i++) {
            json_key(i, out);
            json_value(&fields[i], &results[r], out);
            json_close(i, out);
        }
        buf_putc(out, '}');
    }
    buf_puts(out, "\n]}\n");
}

static void csv_value(const struct summary_field *field,
                      const struct firn_sim_result *result,
                      struct firn_buf *out)
{
    if (field->kind == SUMMARY_TEXT)
        buf_csv_string(out, place(field, result));
    else if (field->kind != SUMMARY_NUMBER || isfinite(number(field, result)))
        summary_value(field, result, out);
}

static void print_csv(const struct firn_sim_result *results, size_t n,
                      struct firn_buf *out)
{
    for (size_t r = 0; r <= n; r++) {
        for (size_t i = 0; i < NFIELDS; i++) {
            if (fields[i].is_measured)
                continue;
            if (i > 0)
                buf_putc(out, ',');
            if (r == 0)
                buf_puts(out, fields[i].name);
            else
                csv_value(&fields[i], &results[r - 1], out);
        }
        buf_putc(out, '\n');
    }
}

void firn_sim_print(const struct firn_sim_result *results, size_t n,
                    enum firn_sim_format format, struct firn_buf *out)
{
    switch (format) {
    case FIRN_SIM_JSON:
        print_json(results, n, out);
        break;
    case FIRN_SIM_CSV:
        print_csv(results, n, out);
        break;
    case FIRN_SIM_TABLE:
        summary_page(results, n, out);
        break;
    }
}
