/* reprotrace.c - traces that scenarios make up: files, joined and thinned.
 *
 * Joining and thinning work on lines of text, whatever the format: what a row
 * means to a reader of traces stays as it is. Drawing samples is in
 * reprosample.c.
 */
#include "cli/reprotrace.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/reprosample.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERS_MAX = 1000 }; /* traces of one {1..n} */

static const char *const kinds[] = {"gen:", "join:", "thin:", "sample:"};

enum kind { GEN, JOIN, THIN, SAMPLE, NKINDS };

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

enum firn_status trace_path(const char *name, struct firn_buf *out,
                            struct firn_error *err)
{
    const char *data = getenv("FIRN_DATA");
    bool is_absolute = name[0] == '/';
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
                    : firn_fail(err, FIRN_ENOENT, "there is no %s", name);
}

void trace_spread(const char *pattern, struct words *out)
{
    const char *open = strchr(pattern, '{');
    const char *dots = open != NULL ? strstr(open, "..") : NULL;
    const char *close = dots != NULL ? strchr(dots, '}') : NULL;
    char low[12] = "", high[12] = "";
    long from, to;
    if (close != NULL) {
        snprintf(low, sizeof low, "%.*s", (int)(dots - open - 1), open + 1);
        snprintf(high, sizeof high, "%.*s", (int)(close - dots - 2), dots + 2);
    }
    if (!str_int(low, 0, NUMBERS_MAX, &from) ||
        !str_int(high, from, from + NUMBERS_MAX, &to)) {
        words_add(out, pattern, strlen(pattern));
        return;
    }
    struct firn_buf text = {0};
    for (long i = from; i <= to; i++) {
        buf_clear(&text);
        buf_add(&text, pattern, (size_t)(open - pattern));
        buf_printf(&text, "%ld%s", i, close + 1);
        words_add(out, text.at, text.n);
    }
    buf_release(&text);
}

static void split(const char *text, struct words *out)
{
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        size_t n = strcspn(text, " ");
        words_add(out, text, n);
        text += n;
    }
}

/* By `firn trace gen`, which says itself what is wrong. */
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
    char **kept = mem_new(n, sizeof *kept); /* parsing moves them about */
    memcpy(kept, line, n * sizeof *kept);
    int rc = cmd_trace((int)n, line);
    for (size_t i = 0; i < n; i++)
        mem_free(kept[i]);
    mem_free(kept);
    mem_free(line);
    return rc == 0 ? FIRN_OK
                   : firn_fail(err, FIRN_EINVAL, "no trace could be made");
}

/* Every `step`th row of a file; the header only when there is none yet. */
static enum firn_status add_rows(const char *name, long step,
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
    const char *header = lines_next(in);
    if (header != NULL && out->n == 0)
        buf_printf(out, "%s\n", header);
    long row = 0;
    for (const char *line; (line = lines_next(in)) != NULL; row++)
        if (row % step == 0)
            buf_printf(out, "%s\n", line);
    lines_close(in);
    return FIRN_OK;
}

static enum firn_status make_rows(enum kind kind, const struct words *words,
                                  struct firn_buf *out, struct firn_error *err)
{
    long step = 1;
    if (kind == THIN &&
        (words->n != 2 || !str_int(words->at[0], 1, 1000000, &step)))
        return firn_fail(err, FIRN_EINVAL, "'thin:' wants a number and a file");
    for (size_t i = kind == THIN; i < words->n; i++)
        FIRN_TRY(add_rows(words->at[i], step, out, err));
    return FIRN_OK;
}

static enum firn_status write_text(const char *path,
                                   const struct firn_buf *text,
                                   struct firn_error *err)
{
    FILE *file = fopen(path, "w");
    bool is_good = file != NULL &&
                   (text->n == 0 || fwrite(text->at, text->n, 1, file) == 1);
    if (file != NULL)
        is_good &= fclose(file) == 0;
    return is_good ? FIRN_OK
                   : firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
}

enum firn_status trace_make(const char *name, const char *cluster,
                            const char *path, struct firn_error *err)
{
    enum kind kind = kind_of(name);
    struct words words = {0};
    struct firn_buf text = {0};
    enum firn_status status = FIRN_OK;
    split(name + strlen(kinds[kind]), &words);
    if (kind == GEN)
        status = make_gen(&words, cluster, path, err);
    else if (kind == SAMPLE)
        status = sample_make(&words, &text, err);
    else
        status = make_rows(kind, &words, &text, err);
    if (status == FIRN_OK && kind != GEN)
        status = write_text(path, &text, err);
    buf_release(&text);
    words_release(&words);
    return status;
}
