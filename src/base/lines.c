/* lines.c - one window that slides over a file or over memory.
 *
 *   source  ......[======== window ========]..............
 *                 ^base   ^start          ^end
 *
 * The next line starts at `start`. When the window holds no line end, what is
 * left of it moves to the front and the rest is filled. A line over LINES_MAX
 * bytes is passed over piece by piece, so memory is a fixed window whatever
 * the file. Memory sources are copied through the same window, so callers may
 * scribble on lines either way.
 *
 * Invariants:
 * (1) 0 <= start <= end <= WINDOW, and window[end] may be written (for a NUL);
 * (2) base + i is the place in the source of window[i].
 * Cost: O(bytes), by memchr.
 */
#include "base/lines.h"
#include "base/mem.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    WINDOW = 4 * LINES_MAX,
    SEEK_STEP = 512, /* a row that is sought alone costs one short read */
};

struct lines {
    FILE *file; /* NULL: memory */
    struct firn_bytes bytes;
    int64_t size;   /* of the source; -1 when not known */
    int64_t base;   /* see the drawing */
    int64_t offset; /* of the line just read */
    long number;    /* of the line just read */
    size_t start, end;
    size_t step; /* what the next fill reads: doubles after a seek */
    bool is_bad, has_ended, has_failed;
    char window[WINDOW + 1];
};

enum firn_status lines_open(struct lines **out, const char *path,
                            struct firn_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return firn_fail(err, errno == ENOENT ? FIRN_ENOENT : FIRN_EIO,
                         "%s: %s", path, strerror(errno));
    struct stat facts;
    if (fstat(fileno(file), &facts) != 0 || S_ISDIR(facts.st_mode)) {
        fclose(file);
        return firn_fail(err, FIRN_EIO, "%s: is a directory, not a file", path);
    }
    setvbuf(file, NULL, _IONBF, 0); /* the window is the buffer */
    struct lines *lines = mem_new(1, sizeof *lines);
    lines->file = file;
    lines->size = S_ISREG(facts.st_mode) ? (int64_t)facts.st_size : -1;
    *out = lines;
    return FIRN_OK;
}

struct lines *lines_from(struct firn_bytes bytes)
{
    struct lines *lines = mem_new(1, sizeof *lines);
    lines->bytes = bytes;
    lines->size = (int64_t)bytes.n;
    return lines;
}

static size_t read_source(struct lines *lines, char *at, size_t room)
{
    if (lines->file != NULL) {
        size_t n = fread(at, 1, room, lines->file);
        if (n < room && ferror(lines->file))
            lines->has_failed = true;
        return n;
    }
    size_t from = (size_t)(lines->base + (int64_t)lines->end);
    size_t left = from < lines->bytes.n ? lines->bytes.n - from : 0;
    size_t n = left < room ? left : room;
    if (n > 0)
        memcpy(at, lines->bytes.at + from, n);
    return n;
}

/* Moves the rest to the front and reads on behind it. */
static void fill(struct lines *lines)
{
    size_t rest = lines->end - lines->start;
    memmove(lines->window, lines->window + lines->start, rest);
    lines->base += (int64_t)lines->start;
    lines->start = 0;
    lines->end = rest;
    size_t room = WINDOW - rest;
    if (lines->step > 0 && lines->step < room) {
        room = lines->step;
        lines->step *= 2;
    }
    size_t n = read_source(lines, lines->window + rest, room);
    lines->has_ended = n < room;
    lines->end += n;
}

/* The line end at or after `start`, or NULL when the window has none. Looks at
 * each byte once, whatever the number of fills. */
static char *find_end(struct lines *lines)
{
    char *from = lines->window + lines->start;
    size_t seen = 0, n = lines->end - lines->start;
    for (;;) {
        char *end = memchr(from + seen, '\n', n - seen);
        if (end != NULL || lines->has_ended || n > LINES_MAX + 1)
            return end;
        seen = n;
        fill(lines);
        from = lines->window;
        n = lines->end;
    }
}

/* Drops a line of which the window holds only a part. */
static void pass_over(struct lines *lines)
{
    for (;;) {
        char *from = lines->window + lines->start;
        char *end = memchr(from, '\n', lines->end - lines->start);
        if (end != NULL) {
            lines->start = (size_t)(end - lines->window) + 1;
            return;
        }
        lines->start = lines->end;
        if (lines->has_ended)
            return;
        fill(lines);
    }
}

char *lines_next(struct lines *lines)
{
    char *end = find_end(lines); /* may slide the window */
    size_t start = lines->start;
    char *text = lines->window + start;
    if (end == NULL && start == lines->end)
        return NULL;
    lines->offset = lines->base + (int64_t)start;
    lines->number++;
    size_t n = (end ? (size_t)(end - lines->window) : lines->end) - start;
    if (end != NULL)
        lines->start += n + 1;
    else if (lines->has_ended)
        lines->start = lines->end;
    else
        pass_over(lines); /* n is over LINES_MAX + 1; text is overwritten */
    if (end != NULL && n > 0 && text[n - 1] == '\r')
        n--;
    lines->is_bad = n > LINES_MAX || memchr(text, '\0', n) != NULL;
    if (lines->is_bad) {
        text = lines->window + WINDOW; /* never holds a byte of the source */
        n = 0;
    }
    text[n] = '\0'; /* on the \r, the \n, or window[end]: (1) */
    return text;
}

long lines_number(const struct lines *lines)
{
    return lines->number;
}

int64_t lines_offset(const struct lines *lines)
{
    return lines->offset;
}

bool lines_bad(const struct lines *lines)
{
    return lines->is_bad;
}

void lines_seek(struct lines *lines, int64_t offset, long number)
{
    lines->number = number - 1;
    lines->offset = offset;
    lines->is_bad = false;
    lines->has_ended = false;
    if (lines->file != NULL && fseeko(lines->file, (off_t)offset, SEEK_SET))
        lines->has_failed = lines->has_ended = true;
    lines->base = offset;
    lines->start = lines->end = 0;
    lines->step = SEEK_STEP;
}

int64_t lines_at(const struct lines *lines)
{
    return lines->base + (int64_t)lines->start;
}

int64_t lines_size(const struct lines *lines)
{
    return lines->size;
}

bool lines_failed(const struct lines *lines)
{
    return lines->has_failed;
}

void lines_close(struct lines *lines)
{
    if (lines == NULL)
        return;
    if (lines->file != NULL)
        fclose(lines->file);
    mem_free(lines);
}
