/* reprotrace.c - traces of scenarios: files, joined and filtered.
 *
 * join, thin, swap and keep work on lines of text in any trace format. draw and
 * sample are in reprodraw.c and reprosample.c.
 */
#include "repro/reprotrace.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "repro/reprodraw.h"
#include "repro/reprosample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERS_MAX = 1000 }; /* largest range of {1..n} */

static const char *const kinds[] = {
    "gen:", "join:", "thin:", "swap:", "keep:", "draw:", "sample:"};

enum kind { GEN, JOIN, THIN, SWAP, KEEP, DRAW, SAMPLE, NKINDS };

static enum kind kind_of(const char *name)
{
    int i = 0;
    while (i < NKINDS && strncmp(name, kinds[i], strlen(kinds[i])) != 0)
        i++;
    return (enum kind)i;
}

bool trace_is_made(const char *name)
{
    return kind_of(name) != NKINDS;
}

bool trace_is_drawn(const char *name)
{
    enum kind kind = kind_of(name);
    return kind == GEN || kind == DRAW || kind == SAMPLE ||
           (kind != NKINDS && strstr(name, " gen:") != NULL);
}

enum firn_status trace_path(const char *name, struct firn_buf *out,
                            struct firn_error *err)
{
    const char *data = getenv("FIRN_DATA");
    bool is_absolute = name[0] == '/' || strncmp(name, "docs/", 5) == 0;
    if (!is_absolute && (data == NULL || *data == '\0'))
        return firn_fail(err, FIRN_ENOENT, "FIRN_DATA is not set");
    buf_clear(out);
    buf_printf(out, "%s%s%s", is_absolute ? "" : data, is_absolute ? "" : "/",
               name);
    char *group = strrchr(out->at, '#');
    if (group != NULL)
        *group = '\0';
    bool is_there = access(out->at, R_OK) == 0;
    if (group != NULL)
        *group = '#';
    return is_there ? FIRN_OK
                    : firn_fail(err, FIRN_ENOENT, "%s: file not found", name);
}

/* Appends `pattern` with its braces, from `open` to `close`, replaced. */
static void add_spread(const char *pattern, const char *open, const char *close,
                       const char *instead, size_t n, struct words *out)
{
    struct firn_buf text = {0};
    buf_add(&text, pattern, (size_t)(open - pattern));
    buf_add(&text, instead, n);
    buf_puts(&text, close + 1);
    words_add(out, text.at, text.n);
    buf_release(&text);
}

void trace_spread(const char *pattern, struct words *out)
{
    const char *open = strchr(pattern, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    size_t n = close != NULL ? (size_t)(close - open - 1) : 0;
    char inside[200] = "", low[12] = "", high[12] = "";
    long from, to;
    if (n > 0 && n < sizeof inside)
        memcpy(inside, open + 1, n);
    if (sscanf(inside, "%11[0-9]..%11[0-9]", low, high) == 2 &&
        str_int(low, 0, NUMBERS_MAX, &from) &&
        str_int(high, from, from + NUMBERS_MAX, &to)) {
        for (long i = from; i <= to; i++) {
            snprintf(low, sizeof low, "%ld", i);
            add_spread(pattern, open, close, low, strlen(low), out);
        }
    } else if (strchr(inside, ',') != NULL) {
        for (const char *at = inside; *at != '\0';) {
            size_t m = strcspn(at, ",");
            add_spread(pattern, open, close, at, m, out);
            at += m + (at[m] == ',');
        }
    } else {
        words_add(out, pattern, strlen(pattern));
    }
}

static void split(const char *text, struct words *out)
{
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        size_t n = strcspn(text, " ");
        words_add(out, text, n);
        text += n;
    }
}

/* Runs `firn trace gen`, which prints its own error messages. */
static enum firn_status make_gen(const struct words *words, const char *cluster,
                                 const char *path, struct firn_error *err)
{
    size_t n = words->n + 6;
    char **line = mem_new(n + 1, sizeof *line);
    const char *const first[] = {"trace", "gen",      "--cluster",
                                 cluster, "--output", path};
    for (size_t i = 0; i < 6; i++)
        line[i] = mem_strdup(first[i]);
    for (size_t i = 6; i < n; i++)
        line[i] = mem_strdup(words->at[i - 6]);
    char **kept = mem_new(n, sizeof *kept); /* cmd_trace() reorders `line` */
    memcpy(kept, line, n * sizeof *kept);
    int rc = cmd_trace((int)n, line);
    for (size_t i = 0; i < n; i++)
        mem_free(kept[i]);
    mem_free(kept);
    mem_free(line);
    return rc == 0 ? FIRN_OK
                   : firn_fail(err, FIRN_EINVAL, "firn trace gen failed");
}

/* A filter for the rows of a file. */
struct cut {
    enum kind kind;
    long step;             /* THIN: every step-th row */
    struct words from, to; /* SWAP; KEEP has `from` only */
    bool is_not;           /* KEEP: rows that do not match */
};

static void put_row(const struct cut *cut, const char *line,
                    struct firn_buf *out)
{
    size_t i = 0;
    while (i < cut->to.n && strstr(line, cut->from.at[i]) == NULL)
        i++;
    for (const char *at;
         i < cut->to.n && (at = strstr(line, cut->from.at[i])) != NULL;) {
        buf_add(out, line, (size_t)(at - line));
        buf_puts(out, cut->to.at[i]);
        line = at + strlen(cut->from.at[i]);
    }
    buf_printf(out, "%s\n", line);
}

static bool is_kept(const struct cut *cut, const char *line, long row)
{
    bool has = false;
    if (cut->kind != KEEP)
        return row % cut->step == 0;
    for (size_t i = 0; i < cut->from.n; i++)
        has |= strstr(line, cut->from.at[i]) != NULL;
    return has != cut->is_not;
}

/* Appends the rows of a file; the header only if `out` is empty. */
static enum firn_status add_rows(const char *name, const struct cut *cut,
                                 struct firn_buf *out, struct firn_error *err)
{
    struct firn_buf path = {0};
    struct lines *in;
    enum firn_status status = trace_path(name, &path, err);
    if (status == FIRN_OK)
        status = lines_open(&in, path.at, err);
    buf_release(&path);
    if (status != FIRN_OK)
        return status;
    bool is_first = out->n == 0;
    for (const char *head; (head = lines_next(in)) != NULL;) {
        if (is_first)
            buf_printf(out, "%s\n", head);
        if (*head != '#') /* comments of firn's own format */
            break;
    }
    long row = 0;
    for (const char *line; (line = lines_next(in)) != NULL; row++)
        if (is_kept(cut, line, row))
            put_row(cut, line, out);
    lines_close(in);
    return FIRN_OK;
}

/* Parses "A=B,C=D" or "A,B"; false if a pair has no '=' or no A. */
static bool read_pieces(struct cut *cut, const char *text)
{
    cut->is_not = cut->kind == KEEP && *text == '!';
    text += cut->is_not;
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        size_t k = cut->kind == SWAP ? strcspn(text, "=,") : n;
        if (k == 0 || (cut->kind == SWAP && k == n))
            return false;
        words_add(&cut->from, text, k);
        if (cut->kind == SWAP)
            words_add(&cut->to, text + k + 1, n - k - 1);
        text += n + (text[n] == ',');
    }
    return cut->from.n > 0;
}

/* Parses the first word, which describes the filter (not for JOIN). */
static bool read_cut(struct cut *cut, const struct words *words)
{
    if (cut->kind == JOIN)
        return true;
    if (words->n != 2)
        return false;
    return cut->kind == THIN ? str_int(words->at[0], 1, 1000000, &cut->step)
                             : read_pieces(cut, words->at[0]);
}

static enum firn_status make_rows(enum kind kind, const struct words *words,
                                  struct firn_buf *out, struct firn_error *err)
{
    struct cut cut = {.kind = kind, .step = 1};
    enum firn_status status = FIRN_OK;
    if (!read_cut(&cut, words))
        status =
            firn_fail(err, FIRN_EINVAL, "'%s' needs %s and a file", kinds[kind],
                      kind == THIN   ? "a number"
                      : kind == SWAP ? "A=B,C=D"
                                     : "A,B or !A,B");
    for (size_t i = kind != JOIN; i < words->n && status == FIRN_OK; i++)
        status = add_rows(words->at[i], &cut, out, err);
    words_release(&cut.from);
    words_release(&cut.to);
    return status;
}

/* KIND:WHAT gen:OPTIONS: generates the trace, then uses it as the file. */
static enum firn_status make_inner(struct words *words, const char *cluster,
                                   const char *path, struct firn_error *err)
{
    struct words inner = {0}, outer = {0};
    words_add(&outer, words->at[0], strlen(words->at[0]));
    words_add(&outer, path, strlen(path));
    size_t n = strlen(kinds[GEN]);
    for (size_t i = 1; i < words->n; i++) {
        const char *word = words->at[i] + (i == 1 ? n : 0);
        if (*word != '\0')
            words_add(&inner, word, strlen(word));
    }
    enum firn_status status = make_gen(&inner, cluster, path, err);
    words_release(&inner);
    words_release(words);
    *words = outer;
    return status;
}

enum firn_status trace_make(const char *name, const char *cluster,
                            const char *path, struct firn_error *err)
{
    enum kind kind = kind_of(name);
    struct words words = {0};
    struct firn_buf text = {0};
    enum firn_status status = FIRN_OK;
    split(name + strlen(kinds[kind]), &words);
    if (kind != GEN && words.n > 1 && kind_of(words.at[1]) == GEN)
        status = make_inner(&words, cluster, path, err);
    if (status == FIRN_OK && kind == GEN)
        status = make_gen(&words, cluster, path, err);
    else if (status == FIRN_OK && kind == DRAW)
        status = draw_make(&words, &text, err);
    else if (status == FIRN_OK && kind == SAMPLE)
        status = sample_make(&words, &text, err);
    else if (status == FIRN_OK)
        status = make_rows(kind, &words, &text, err);
    if (status == FIRN_OK && kind != GEN)
        status = output_file(path, &text, err);
    buf_release(&text);
    words_release(&words);
    return status;
}
