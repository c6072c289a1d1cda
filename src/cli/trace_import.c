/* trace_import.c - reads tables of other programs by a mapping of columns.
 *
 * A table has a line of names and cells divided by '|' (sacct -P), tabs or
 * commas; the division is that of the first line. A mapping says which column
 * holds what:
 * "submit=Submit,gpus=AllocTRES:gres/gpu,duration=Elapsed,user=User". Behind a
 * colon stands the key of a cell that is a list "cpu=8,gres/gpu=2".
 *
 * (1) submit, gpus and duration are needed. What a mapping does not name is
 *     guessed from usual names of columns; what cannot be guessed is an error
 *     that names the columns there are.
 * (2) Times without a zone are of trace_import_zone(), else UTC: only
 *     differences count, and in UTC these are off by an hour where a clock was
 *     changed in between.
 * (3) Rows of steps ("12.batch"), without GPUs or without a run are counted and
 *     left out; so are rows that cannot be read, the first of which is named.
 *
 * Cost: the jobs are kept in memory for the sort.
 */
#include "cli/trace_import.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/flags.h"
#include "cli/trace_kube.h"
#include "trace/write.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELLS_MAX = 128, NAME_LENGTH = 64 };

enum field { NAME, SUBMIT, GPUS, DURATION, USER, APP, NFIELDS };

/* Usual names of columns; the first that a table has is taken. */
static const struct {
    const char *key;
    const char *usual[10];
} fields[NFIELDS] = {
    [NAME] = {"name", {"JobID", "job_id", "id", "name", "JobName", NULL}},
    [SUBMIT] = {"submit",
                {"Submit", "submit_time", "submit_s", "submitted",
                 "arrival_time", "arrival", NULL}},
    [GPUS] = {"gpus",
              {"AllocTRES:gres/gpu", "ReqTRES:gres/gpu", "AllocGRES", "ReqGRES",
               "gpus", "num_gpus", "num_gpu", "gpu_num", NULL}},
    [DURATION] = {"duration",
                  {"ElapsedRaw", "Elapsed", "duration", "duration_s", "runtime",
                   "run_time", NULL}},
    [USER] = {"user", {"User", "user", "Account", NULL}},
    [APP] = {"app", {NULL}},
};

/* Parts of names by which a column is proposed, never taken. */
static const char *const hints[NFIELDS][9] = {
    [NAME] = {"job", "name", "id", NULL},
    [SUBMIT] = {"submi", "arriv", "queued", "creat", "start", "when", "time",
                "date", NULL},
    [GPUS] = {"gpu", "accel", "card", "device", NULL},
    [DURATION] = {"durat", "elaps", "runtime", "wall", "length", "long", "run",
                  NULL},
    [USER] = {"user", "owner", "account", "who", NULL},
    [APP] = {NULL},
};

/* --- cells -----------------------------------------------------------------
 */

/* A whole number of `most` digits at most, and what follows it; false: there is
 * no digit. */
static bool take_digits(const char **at, int most, int *out)
{
    int n = 0, value = 0;
    while (n < most && (*at)[n] >= '0' && (*at)[n] <= '9')
        value = 10 * value + ((*at)[n++] - '0');
    *at += n;
    *out = value;
    return n > 0;
}

static bool take_letter(const char **at, const char *letters)
{
    bool is_there = **at != '\0' && strchr(letters, **at) != NULL;
    *at += is_there;
    return is_there;
}

bool trace_import_span(const char *text, double *out_s)
{
    struct firn_error ignored;
    double parts[3] = {0};
    int days = 0, n = 0;
    if (strchr(text, ':') == NULL)
        return duration_parse(text, out_s, &ignored) == FIRN_OK;
    if (strchr(text, '-') != NULL &&
        (!take_digits(&text, 6, &days) || !take_letter(&text, "-")))
        return false;
    for (; n < 3; n++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        parts[n] = strtod(text, &end);
        text = end;
        if (*text == '\0')
            break;
        if (!take_letter(&text, ":"))
            return false;
    }
    if (n == 3 || n == 0)
        return false;
    double s = n == 2 ? parts[0] * 3600 + parts[1] * 60 + parts[2]
                      : parts[0] * 60 + parts[1];
    *out_s = days * 86400.0 + s;
    return true;
}

/* Days since 1970 of a date in the Gregorian calendar: years begin in March, so
 * that a leap day is the last of its year. */
static double days_of(int year, int month, int day)
{
    year -= month <= 2;
    int era = year / 400, of_era = year - era * 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    return era * 146097.0 + days - 719468;
}

/* "Z", "+02:00", "-05:30" or nothing; false: something else follows. */
static bool take_zone(const char **at, double *zone_s)
{
    int hours = 0, minutes = 0, sign = **at == '-' ? -1 : 1;
    *zone_s = 0;
    if (**at == '\0' || take_letter(at, "Z"))
        return **at == '\0';
    if (!take_letter(at, "+-") || !take_digits(at, 2, &hours) ||
        !take_letter(at, ":") || !take_digits(at, 2, &minutes))
        return false;
    *zone_s = sign * (hours * 60.0 + minutes) * 60;
    return **at == '\0';
}

/* Is TZ that of the table? Else times without a zone are UTC. */
static bool has_zone;

bool trace_import_zone(const char *zone)
{
    char path[300];
    snprintf(path, sizeof path, "/usr/share/zoneinfo/%.200s", zone);
    bool is_here = strcmp(zone, "local") == 0;
    if (!is_here && (zone[0] == '\0' || strstr(zone, "..") != NULL ||
                     access(path, R_OK) != 0))
        return false;
    if (!is_here && setenv("TZ", zone, 1) != 0)
        return false;
    tzset();
    has_zone = true;
    return true;
}

/* The same moment by the clocks of that zone. An hour that a change of the
 * clock repeats is the first one; one that it leaves out goes on behind it. */
static double by_zone_s(double utc_s)
{
    time_t at = (time_t)floor(utc_s);
    struct tm parts;
    if (!has_zone || gmtime_r(&at, &parts) == NULL)
        return utc_s;
    parts.tm_isdst = -1;
    return (double)mktime(&parts) + (utc_s - (double)at);
}

bool trace_import_moment(const char *text, double *out_s)
{
    int year, month, day, hour, minute;
    double zone_s;
    char *end;
    if (str_double(text, out_s))
        return *out_s >= 0;
    if (!take_digits(&text, 4, &year) || !take_letter(&text, "-") ||
        !take_digits(&text, 2, &month) || !take_letter(&text, "-") ||
        !take_digits(&text, 2, &day) || !take_letter(&text, "T ") ||
        !take_digits(&text, 2, &hour) || !take_letter(&text, ":") ||
        !take_digits(&text, 2, &minute) || !take_letter(&text, ":") ||
        *text < '0' || *text > '9')
        return false;
    double second = strtod(text, &end);
    text = end;
    bool is_bare = *text == '\0';
    if (!take_zone(&text, &zone_s) || year < 1970 || month < 1 || month > 12 ||
        day < 1 || day > 31 || hour > 24 || minute > 59 || second >= 61)
        return false;
    *out_s = days_of(year, month, day) * 86400 + hour * 3600.0 + minute * 60.0 +
             second - zone_s;
    if (is_bare)
        *out_s = by_zone_s(*out_s);
    return true;
}

/* The value of a key in a list "cpu=8,gres/gpu=2"; NULL: there is none. With
 * `is_typed` the key goes on behind a colon: "gres/gpu:a100=2". */
static const char *value_in(const char *list, const char *key, bool is_typed)
{
    size_t n = strlen(key);
    for (const char *at = list; (at = strstr(at, key)) != NULL; at++) {
        if (at != list && at[-1] != ',')
            continue;
        size_t more = is_typed && at[n] == ':' ? strcspn(at + n, "=,") : 0;
        if (at[n + more] == '=' && (more > 0) == is_typed)
            return at + n + more + 1;
    }
    return NULL;
}

/* The sum over all types. */
static bool typed_gpus(const char *list, const char *key, int *out)
{
    int one, all = 0;
    const char *at = list;
    while ((at = value_in(at, key, true)) != NULL) {
        if (!trace_import_gpus(at, "", &one))
            return false;
        all += one;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    *out = all;
    return true;
}

bool trace_import_gpus(const char *text, const char *key, int *out)
{
    double value;
    *out = 0;
    if (key[0] != '\0') {
        const char *at = value_in(text, key, false);
        if (at == NULL)
            return typed_gpus(text, key, out);
        text = at;
    } else if (strncmp(text, "gpu:", 4) == 0) {
        const char *end = text + strcspn(text, ",(");
        while (end[-1] != ':')
            end--;
        text = end;
    }
    if (text[0] == '\0')
        return true;
    char number[32];
    size_t length = strcspn(text, ",(");
    if (length >= sizeof number)
        return false;
    memcpy(number, text, length);
    number[length] = '\0';
    if (!str_double(number, &value) || value < 0 || value > 1e6)
        return false;
    *out = (int)ceil(value);
    return true;
}

/* --- the table
 * ---------------------------------------------------------------- */

struct column {
    int at;          /* -1: none */
    const char *key; /* of a list in the cell; "" for none */
};

struct import {
    struct arena text;
    struct lines *lines;
    char divider;
    char *cells[CELLS_MAX];
    int ncells;
    const char *head[CELLS_MAX];
    int nhead;
    struct column columns[NFIELDS];
    struct trace_import_jobs jobs;
};

/* Cuts a line in place; quotes around a cell are taken off. */
static void cut(struct import *in, char *line)
{
    in->ncells = 0;
    for (char *at = line; in->ncells < CELLS_MAX;) {
        bool is_quoted = *at == '"' && in->divider == ',';
        char *to = at += is_quoted;
        in->cells[in->ncells++] = at;
        while (*at != '\0' && (is_quoted || *at != in->divider)) {
            if (is_quoted && at[0] == '"' && at[1] != '"') {
                is_quoted = false;
                at++;
                continue;
            }
            at += is_quoted && at[0] == '"';
            *to++ = *at++;
        }
        bool is_last = *at == '\0';
        *to = '\0';
        if (is_last)
            return;
        at++;
    }
}

static int find_column(const struct import *in, const char *name, size_t n)
{
    for (int i = 0; i < in->nhead; i++)
        if (strlen(in->head[i]) == n) {
            size_t k = 0;
            while (k < n && tolower((unsigned char)in->head[i][k]) ==
                                tolower((unsigned char)name[k]))
                k++;
            if (k == n)
                return i;
        }
    return -1;
}

/* "AllocTRES:gres/gpu" */
static bool take_column(struct import *in, enum field field, const char *text)
{
    size_t n = strcspn(text, ":");
    int at = find_column(in, text, n);
    if (at < 0)
        return false;
    in->columns[field].at = at;
    in->columns[field].key =
        text[n] == ':' ? arena_strdup(&in->text, text + n + 1) : "";
    return true;
}

static void guess(struct import *in)
{
    for (int f = 0; f < NFIELDS; f++)
        for (int i = 0; in->columns[f].at < 0 && fields[f].usual[i] != NULL;
             i++)
            take_column(in, (enum field)f, fields[f].usual[i]);
}

static bool is_used(const struct import *in, int at)
{
    for (int f = 0; f < NFIELDS; f++)
        if (in->columns[f].at == at)
            return true;
    return false;
}

static bool has_part(const char *name, const char *part)
{
    size_t n = strlen(part);
    for (; *name != '\0'; name++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)name[k]) == part[k])
            k++;
        if (k == n)
            return true;
    }
    return false;
}

/* Columns for fields that have none, by parts of their names. The needed fields
 * choose first. */
static void propose(struct import *in)
{
    static const enum field order[] = {GPUS, DURATION, SUBMIT, USER, NAME};
    for (size_t o = 0; o < sizeof order / sizeof *order; o++)
        for (int h = 0;
             in->columns[order[o]].at < 0 && hints[order[o]][h] != NULL; h++)
            for (int i = 0; i < in->nhead && in->columns[order[o]].at < 0; i++)
                if (!is_used(in, i) &&
                    has_part(in->head[i], hints[order[o]][h]))
                    in->columns[order[o]] = (struct column){i, ""};
}

/* The mapping by the columns so far; false: a needed one is "COLUMN". */
static bool put_map(const struct import *in, struct firn_buf *works)
{
    bool is_whole = true;
    for (int f = 0; f < NFIELDS; f++) {
        const struct column *column = &in->columns[f];
        bool is_needed = f == SUBMIT || f == GPUS || f == DURATION;
        if (column->at < 0 && !is_needed)
            continue;
        is_whole = is_whole && column->at >= 0;
        buf_printf(works, "%s%s=%.40s%s%.40s", works->n > 0 ? "," : "",
                   fields[f].key,
                   column->at < 0 ? "COLUMN" : in->head[column->at],
                   column->at >= 0 && column->key[0] != '\0' ? ":" : "",
                   column->at >= 0 ? column->key : "");
    }
    return is_whole;
}

/* (1) */
static enum firn_status say_columns(struct import *in, const char *what,
                                    struct firn_error *err)
{
    struct firn_buf text = {0}, works = {0};
    for (int i = 0; i < in->nhead; i++)
        buf_printf(&text, "%s%.40s", i > 0 ? ", " : "", in->head[i]);
    propose(in);
    put_map(in, &works);
    firn_fail(err, FIRN_EINVAL,
              "%s; try --map '%.300s'; the columns are %.700s", what, works.at,
              text.at);
    buf_release(&text);
    buf_release(&works);
    return FIRN_EINVAL;
}

/* "submit=Submit,gpus=AllocTRES:gres/gpu" */
static enum firn_status take_map(struct import *in, const char *map,
                                 struct firn_error *err)
{
    char what[200];
    for (const char *at = map; *at != '\0';) {
        size_t n = strcspn(at, ","), equals = strcspn(at, "=");
        char item[256];
        snprintf(item, sizeof item, "%.*s", n < 255 ? (int)n : 255, at);
        int f = 0;
        while (f < NFIELDS && (strlen(fields[f].key) != equals ||
                               strncmp(fields[f].key, at, equals) != 0))
            f++;
        if (equals >= n || f == NFIELDS)
            return firn_fail(err, FIRN_EINVAL,
                             "--map: '%.60s' is not FIELD=COLUMN with the "
                             "fields name, submit, gpus, duration, user, app",
                             item);
        if (!take_column(in, (enum field)f, item + equals + 1)) {
            guess(in);
            snprintf(what, sizeof what, "--map: there is no column '%.60s'",
                     item + equals + 1);
            return say_columns(in, what, err);
        }
        at += n + (at[n] == ',');
    }
    return FIRN_OK;
}

static enum firn_status read_head(struct import *in, const char *from,
                                  const char *map, struct firn_error *err)
{
    char *line = lines_next(in->lines);
    if (line == NULL)
        return firn_fail(err, FIRN_EDATA, "the table is empty");
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    in->divider = strchr(line, '|') != NULL    ? '|'
                  : strchr(line, '\t') != NULL ? '\t'
                                               : ',';
    if (from != NULL && in->divider != '|')
        return firn_fail(err, FIRN_EDATA,
                         "the first line has no '|': make the table by 'sacct "
                         "-a -P -o JobID,User,Submit,ElapsedRaw,AllocTRES'");
    char *names = arena_strdup(&in->text, line);
    cut(in, names);
    for (int i = 0; i < in->ncells; i++)
        in->head[in->nhead++] = str_trim(in->cells[i]);
    for (int f = 0; f < NFIELDS; f++)
        in->columns[f] = (struct column){-1, ""};
    if (map != NULL)
        FIRN_TRY(take_map(in, map, err));
    guess(in);
    static const enum field needed[] = {SUBMIT, GPUS, DURATION};
    for (int i = 0; i < 3; i++)
        if (in->columns[needed[i]].at < 0) {
            char what[80];
            snprintf(what, sizeof what, "no column for '%s'",
                     fields[needed[i]].key);
            return say_columns(in, what, err);
        }
    return FIRN_OK;
}

static const char *cell(const struct import *in, enum field field)
{
    int at = in->columns[field].at;
    return at >= 0 && at < in->ncells ? in->cells[at] : "";
}

/* NULL: taken, or (with is_gpu false) rightly left out; else what is wrong. */
static const char *take_row(struct import *in, bool *is_gpu)
{
    struct trace_import_job job = {.line = lines_number(in->lines)};
    const char *name = cell(in, NAME), *span = cell(in, DURATION);
    *is_gpu = false;
    if (in->ncells < in->nhead - 1)
        return "it has fewer cells than the first line";
    if (strchr(name, '.') != NULL && in->divider == '|')
        return NULL; /* a step */
    if (!trace_import_gpus(cell(in, GPUS), in->columns[GPUS].key, &job.gpus))
        return "its number of GPUs cannot be read";
    if (job.gpus == 0 || span[0] == '\0' || strcmp(span, "Unknown") == 0)
        return NULL;
    if (!trace_import_span(span, &job.duration_s))
        return "its duration cannot be read";
    if (job.duration_s <= 0)
        return NULL;
    if (!trace_import_moment(cell(in, SUBMIT), &job.submit_s))
        return "its submission time cannot be read";
    char made[NAME_LENGTH];
    snprintf(made, sizeof made, "j%ld", job.line);
    job.name = arena_strdup(&in->text, name[0] != '\0' ? name : made);
    job.user = arena_strdup(&in->text, cell(in, USER));
    job.app = arena_strdup(&in->text, cell(in, APP));
    vec_add(&in->jobs, job);
    *is_gpu = true;
    return NULL;
}

static void read_rows(struct import *in, struct trace_import *report)
{
    for (char *line; (line = lines_next(in->lines)) != NULL;) {
        bool is_gpu;
        if (line[0] == '\0')
            continue;
        cut(in, line);
        const char *wrong = take_row(in, &is_gpu);
        report->jobs += is_gpu;
        report->not_gpu += !is_gpu && wrong == NULL;
        if (wrong == NULL)
            continue;
        if (report->bad++ == 0)
            snprintf(report->first, sizeof report->first, "line %ld: %s",
                     lines_number(in->lines), wrong);
    }
}

static int by_submit(const void *one, const void *two)
{
    const struct trace_import_job *a = one, *b = two;
    if (a->submit_s != b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static struct firn_job_spec spec_of(const struct trace_import_job *job,
                                    double first_s)
{
    return (struct firn_job_spec){.name = job->name,
                                  .app = job->app,
                                  .group = job->user,
                                  .types = "",
                                  .submit_s = job->submit_s - first_s,
                                  .gpus = job->gpus,
                                  .gpus_min = job->gpus,
                                  .gpus_max = job->gpus,
                                  .duration_s = job->duration_s,
                                  .may_share = job->may_share,
                                  .restart_s = -1};
}

static void write_jobs(struct import *in, struct firn_buf *out)
{
    unsigned mask = 0;
    size_t n = in->jobs.n;
    qsort(in->jobs.at, n, sizeof *in->jobs.at, by_submit);
    for (size_t i = 0; i < n; i++) {
        struct firn_job_spec spec =
            spec_of(&in->jobs.at[i], in->jobs.at[0].submit_s);
        mask |= write_mask(&spec);
    }
    write_header(out, mask);
    for (size_t i = 0; i < n; i++) {
        struct firn_job_spec spec =
            spec_of(&in->jobs.at[i], in->jobs.at[0].submit_s);
        write_row(out, &spec, mask);
    }
}

static enum firn_status read_table(struct import *in, const char *path,
                                   const char *from, const char *map,
                                   struct trace_import *report,
                                   struct firn_error *err)
{
    FIRN_TRY(lines_open(&in->lines, path, err));
    FIRN_TRY(read_head(in, from, map, err));
    read_rows(in, report);
    return FIRN_OK;
}

/* Appends a file as it is: a line of JSON may be long. */
static enum firn_status read_file(const char *path, struct firn_buf *out,
                                  struct firn_error *err)
{
    char piece[1 << 14];
    size_t n;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return firn_fail(err, FIRN_ENOENT, "%s: %s", path, strerror(errno));
    while ((n = fread(piece, 1, sizeof piece, file)) > 0)
        buf_add(out, piece, n);
    bool has_failed = ferror(file) != 0;
    fclose(file);
    if (has_failed)
        return firn_fail(err, FIRN_EIO, "%s: cannot be read", path);
    return FIRN_OK;
}

static enum firn_status read_kube(struct import *in, const char *path,
                                  struct trace_import *report,
                                  struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_OK;
    status = read_file(path, &text, err);
    if (status == FIRN_OK)
        status = trace_kube_read((struct firn_bytes){text.at, text.n},
                                 &in->text, &in->jobs, report, err);
    buf_release(&text);
    return status;
}

bool trace_import_suggest(const char *path, struct firn_buf *map)
{
    struct import in = {0};
    struct firn_error ignored = {0};
    bool is_whole = false;
    if (lines_open(&in.lines, path, &ignored) == FIRN_OK) {
        enum firn_status status = read_head(&in, NULL, NULL, &ignored);
        if (in.nhead > 0 && status != FIRN_EDATA)
            is_whole = put_map(&in, map); /* a failed read_head() proposed */
    }
    lines_close(in.lines);
    arena_release(&in.text);
    return is_whole;
}

enum firn_status trace_import(const char *path, const char *from,
                              const char *map, struct firn_buf *out,
                              struct trace_import *report,
                              struct firn_error *err)
{
    struct import in = {0};
    bool is_kube = from != NULL && strcmp(from, "kube") == 0;
    *report = (struct trace_import){0};
    if (from != NULL && !is_kube && strcmp(from, "sacct") != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "--from: '%.40s' is not known; there are sacct and "
                         "kube",
                         from);
    enum firn_status status =
        is_kube ? read_kube(&in, path, report, err)
                : read_table(&in, path, from, map, report, err);
    if (status == FIRN_OK && report->jobs > 0)
        write_jobs(&in, out);
    else if (status == FIRN_OK)
        status =
            firn_fail(err, FIRN_EDATA,
                      "%s: no job that ran on GPUs (%ld %s without "
                      "GPUs or a run, %ld unreadable%s%s)",
                      path, report->not_gpu, is_kube ? "pods" : "rows",
                      report->bad, report->bad > 0 ? "; " : "", report->first);
    lines_close(in.lines);
    vec_release(&in.jobs);
    arena_release(&in.text);
    return status;
}
