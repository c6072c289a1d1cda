/* resizefile.c - see resizefile.h: lines of a name and values, ended by "end".
 *
 * The reader is strict, as for all files of an attempt: another first line, a
 * value out of range or a missing "end" make the file damaged.
 */
#include "engine/resizefile.h"
#include "base/buf.h"
#include "base/str.h"
#include "engine/holding.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 1 << 14, RANKS_MAX = 1 << 12 };

void resize_release(struct resize *resize)
{
    vec_release(&resize->from);
    holding_release(&resize->old);
    holding_release(&resize->next);
}

/* --- writing -------------------------------------------------------------- */

static void put_gpus(struct firn_buf *out, const char *name,
                     const struct firn_alloc *gpus)
{
    buf_puts(out, name);
    for (int i = 0; i < gpus->nparts; i++)
        buf_printf(out, " %d.%d.%" PRIx64, gpus->parts[i].node,
                   gpus->parts[i].board, gpus->parts[i].gpus);
    buf_putc(out, '\n');
}

static enum firn_status put(int folder, const char *name, struct firn_buf *text,
                            struct firn_error *err)
{
    buf_puts(text, "end\n");
    enum firn_status status =
        attempt_put(folder, name, (struct firn_bytes){text->at, text->n}, err);
    buf_release(text);
    return status;
}

enum firn_status resize_put(int folder, const struct resize *resize,
                            struct firn_error *err)
{
    struct firn_buf text = {0};
    buf_printf(&text, "firn-resize 1\nnumber %lld\nprepare %.3f\nfrom",
               (long long)resize->number, resize->prepare_s);
    for (size_t i = 0; i < resize->from.n; i++)
        buf_printf(&text, " %d", resize->from.at[i]);
    buf_putc(&text, '\n');
    put_gpus(&text, "old", &resize->old);
    put_gpus(&text, "new", &resize->next);
    return put(folder, "resize", &text, err);
}

enum firn_status resized_put(int folder, const struct resized *resized,
                             struct firn_error *err)
{
    struct firn_buf text = {0};
    char why[sizeof resized->why];
    str_copy(why, sizeof why, resized->why);
    for (char *at = why; *at != '\0'; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    buf_printf(&text,
               "firn-resized 1\nnumber %lld\ndone %d\npause %.6f\n"
               "prepare %.6f\nstep %llu\nwhy %s\n",
               (long long)resized->number, resized->is_done, resized->pause_s,
               resized->prepare_s, (unsigned long long)resized->step, why);
    return put(folder, "resized", &text, err);
}

enum firn_status resize_gpus_put(int folder, const struct firn_alloc *gpus,
                                 struct firn_error *err)
{
    struct firn_buf text = {0};
    buf_puts(&text, "firn-gpus 1\n");
    put_gpus(&text, "gpus", gpus);
    return put(folder, "gpus", &text, err);
}

/* --- reading -------------------------------------------------------------- */

/* A cursor over the lines of a file, which ends with a NUL. */
struct lines {
    char *at;
};

/* The rest of the next line if it begins with `name`; else NULL. */
static char *line_of(struct lines *lines, const char *name)
{
    size_t n = strlen(name);
    char *line = lines->at, *end = strchr(line, '\n');
    if (end == NULL || strncmp(line, name, n) != 0 ||
        (line[n] != ' ' && line[n] != '\n'))
        return NULL;
    *end = '\0';
    lines->at = end + 1;
    return line + n;
}

static bool number_of(struct lines *lines, const char *name, double most,
                      double *out)
{
    char *text = line_of(lines, name);
    return text != NULL && text[0] == ' ' && str_double(text + 1, out) &&
           *out >= 0 && *out <= most;
}

static bool gpus_of(struct lines *lines, const char *name,
                    struct firn_alloc *out)
{
    char *at = line_of(lines, name);
    VEC(struct firn_part) parts = {0};
    bool is_good = at != NULL;
    *out = (struct firn_alloc)FIRN_ALLOC_NONE;
    while (is_good && *at == ' ' && parts.n < PARTS_MAX) {
        struct firn_part part = {0};
        part.node = (int)strtol(at + 1, &at, 10);
        is_good = *at == '.';
        part.board = is_good ? (int)strtol(at + 1, &at, 10) : 0;
        is_good = is_good && *at == '.';
        part.gpus = is_good ? strtoull(at + 1, &at, 16) : 0;
        is_good =
            is_good && part.node >= 0 && part.board >= 0 && part.gpus != 0;
        vec_add(&parts, part);
    }
    is_good = is_good && *at == '\0';
    for (size_t i = 0; i < parts.n; i++)
        for (uint64_t bits = parts.at[i].gpus; bits != 0; bits &= bits - 1)
            out->ngpus++;
    out->nparts = (int)parts.n;
    out->parts = parts.at;
    if (!is_good)
        holding_release(out);
    return is_good;
}

static bool ranks_of(struct lines *lines, struct resize *out)
{
    char *at = line_of(lines, "from");
    bool is_good = at != NULL;
    while (is_good && *at == ' ' && out->from.n < RANKS_MAX) {
        char *end = NULL;
        long rank = strtol(at + 1, &end, 10);
        is_good = end != at + 1 && rank >= -1 && rank < RANKS_MAX;
        vec_add(&out->from, (int)rank);
        at = end;
    }
    return is_good && *at == '\0' && out->from.n > 0;
}

/* Reads a file and its first line; `text` is to be released. */
static enum attempt_found begin(int folder, const char *name, const char *head,
                                struct firn_buf *text, struct lines *lines)
{
    enum attempt_found found = attempt_get(folder, name, text);
    if (found != ATTEMPT_PRESENT)
        return found;
    buf_putc(text, '\0');
    lines->at = text->at;
    char *rest = line_of(lines, head);
    return rest != NULL && strcmp(rest, " 1") == 0 ? ATTEMPT_PRESENT
                                                   : ATTEMPT_DAMAGED;
}

static bool is_end(struct lines *lines)
{
    return line_of(lines, "end") != NULL && *lines->at == '\0';
}

enum attempt_found resize_get(int folder, struct resize *out)
{
    struct firn_buf text = {0};
    struct lines lines = {0};
    double number = 0;
    *out = (struct resize){.old = FIRN_ALLOC_NONE, .next = FIRN_ALLOC_NONE};
    enum attempt_found found =
        begin(folder, "resize", "firn-resize", &text, &lines);
    if (found == ATTEMPT_PRESENT &&
        !(number_of(&lines, "number", 1e15, &number) &&
          number_of(&lines, "prepare", 1e9, &out->prepare_s) &&
          ranks_of(&lines, out) && gpus_of(&lines, "old", &out->old) &&
          gpus_of(&lines, "new", &out->next) && is_end(&lines)))
        found = ATTEMPT_DAMAGED;
    out->number = (int64_t)number;
    buf_release(&text);
    if (found != ATTEMPT_PRESENT)
        resize_release(out);
    return found;
}

enum attempt_found resized_get(int folder, struct resized *out)
{
    struct firn_buf text = {0};
    struct lines lines = {0};
    double number = 0, done = 0, step = 0;
    *out = (struct resized){0};
    enum attempt_found found =
        begin(folder, "resized", "firn-resized", &text, &lines);
    if (found == ATTEMPT_PRESENT) {
        bool is_good = number_of(&lines, "number", 1e15, &number) &&
                       number_of(&lines, "done", 1, &done) &&
                       number_of(&lines, "pause", 1e9, &out->pause_s) &&
                       number_of(&lines, "prepare", 1e9, &out->prepare_s) &&
                       number_of(&lines, "step", 1e18, &step);
        const char *why = is_good ? line_of(&lines, "why") : NULL;
        if (why != NULL && *why == ' ')
            str_copy(out->why, sizeof out->why, why + 1);
        if (why == NULL || !is_end(&lines))
            found = ATTEMPT_DAMAGED;
    }
    out->number = (int64_t)number;
    out->is_done = done == 1;
    out->step = (uint64_t)step;
    buf_release(&text);
    return found;
}

enum attempt_found resize_gpus_get(int folder, struct firn_alloc *out)
{
    struct firn_buf text = {0};
    struct lines lines = {0};
    *out = (struct firn_alloc)FIRN_ALLOC_NONE;
    enum attempt_found found =
        begin(folder, "gpus", "firn-gpus", &text, &lines);
    if (found == ATTEMPT_PRESENT &&
        !(gpus_of(&lines, "gpus", out) && is_end(&lines)))
        found = ATTEMPT_DAMAGED;
    buf_release(&text);
    return found;
}

/* --- ranks ---------------------------------------------------------------- */

/* The rank of a GPU among those of the allocation; -1: it has it not. */
static int rank_of(const struct firn_alloc *gpus, const struct firn_part *part,
                   uint64_t bit)
{
    int rank = 0;
    for (int i = 0; i < gpus->nparts; i++)
        for (uint64_t bits = gpus->parts[i].gpus; bits != 0; bits &= bits - 1) {
            if (gpus->parts[i].node == part->node &&
                gpus->parts[i].board == part->board && (bits & -bits) == bit)
                return rank;
            rank++;
        }
    return -1;
}

void resize_ranks(struct resize *resize)
{
    resize->from.n = 0;
    for (int i = 0; i < resize->next.nparts; i++) {
        const struct firn_part *part = &resize->next.parts[i];
        for (uint64_t bits = part->gpus; bits != 0; bits &= bits - 1)
            vec_add(&resize->from, rank_of(&resize->old, part, bits & -bits));
    }
}
