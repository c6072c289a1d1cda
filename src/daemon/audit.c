/* audit.c - writes and reads the audit: see the header.
 *
 * Cost: one write() for each change; a page of PIECE bytes is read at a time.
 */
#include "daemon/audit.h"
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20 };

struct audit {
    char *path;
    int fd;
    bool has_failed; /* said in the log already */
};

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                0600);
}

enum firn_status audit_open(struct audit **out, const char *path,
                            struct firn_error *err)
{
    int fd = open_file(path);
    if (fd < 0)
        return firn_fail(err, FIRN_EIO, "cannot open the audit '%.300s': %s",
                         path, strerror(errno));
    struct audit *audit = mem_new(1, sizeof *audit);
    audit->path = mem_strdup(path);
    audit->fd = fd;
    *out = audit;
    return FIRN_OK;
}

void audit_close(struct audit *audit)
{
    if (audit == NULL)
        return;
    close(audit->fd);
    mem_free(audit->path);
    mem_free(audit);
}

/* Was the file moved away? Then a new one is begun. */
static void follow_path(struct audit *audit)
{
    struct stat here, there;
    bool is_same = fstat(audit->fd, &here) == 0 &&
                   lstat(audit->path, &there) == 0 &&
                   here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    int fd = is_same ? -1 : open_file(audit->path);
    if (fd < 0)
        return;
    close(audit->fd);
    audit->fd = fd;
}

/* (1) */
static void put_line(struct audit *audit, struct firn_buf *line)
{
    buf_putc(line, '\n');
    follow_path(audit);
    bool is_written = write(audit->fd, line->at, line->n) == (ssize_t)line->n;
    if (!is_written && !audit->has_failed)
        log_warn("a line of the audit '%s' could not be written: %s",
                 audit->path, strerror(errno));
    audit->has_failed = !is_written;
    buf_release(line);
}

void audit_request(struct audit *audit, double at_s,
                   const struct http_request *request, int status)
{
    const struct http_caller *caller = &request->caller;
    struct firn_buf line = {0}, did = {0};
    buf_printf(&did, "%s %.1000s", request->method, request->path);
    jsonbuf_open(&line, NULL, '{');
    jsonbuf_double(&line, "at_s", at_s);
    jsonbuf_text(&line, "user", caller->user);
    jsonbuf_text(&line, "role", access_role_name(caller->role));
    jsonbuf_text(&line, "from",
                 caller->address[0] != '\0' ? caller->address : "socket");
    if (caller->token > 0)
        jsonbuf_int(&line, "token", caller->token);
    jsonbuf_text(&line, "did", did.at);
    jsonbuf_int(&line, "status", status);
    jsonbuf_close(&line, '}');
    buf_release(&did);
    put_line(audit, &line);
}

void audit_refused(struct audit *audit, double at_s, const char *peer,
                   const char *text)
{
    struct firn_buf line = {0};
    jsonbuf_open(&line, NULL, '{');
    jsonbuf_double(&line, "at_s", at_s);
    jsonbuf_text(&line, "from", peer);
    jsonbuf_text(&line, "refused", text);
    jsonbuf_close(&line, '}');
    put_line(audit, &line);
}

/* --- reading ------------------------------------------------------------- */

/* The start of the last `most` lines of `text`. */
static size_t tail_of(const char *text, size_t n, size_t most)
{
    size_t at = n;
    while (at > 0 && (text[at - 1] != '\n' || at == n || most-- > 1))
        at--;
    return at;
}

/* Lines up to the last whole one; only those that are JSON objects by their
 * first and last letter are shown: the rest of a line that was cut by a full
 * disk is not. Returns the bytes used. */
static size_t add_lines(const char *text, size_t n, size_t most,
                        struct firn_buf *json)
{
    size_t at = 0, nlines = 0;
    while (at < n && nlines < most) {
        const char *end = memchr(text + at, '\n', n - at);
        if (end == NULL)
            break;
        size_t length = (size_t)(end - text) - at;
        if (length > 1 && text[at] == '{' && end[-1] == '}') {
            buf_puts(json, nlines++ > 0 ? ", " : "");
            buf_add(json, text + at, length);
        }
        at += length + 1;
    }
    return at;
}

enum firn_status audit_read(const struct audit *audit, int64_t after,
                            size_t most, bool tail, struct firn_buf *json,
                            int64_t *next, struct firn_error *err)
{
    struct stat st = {0};
    int fd = open(audit->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return firn_fail(err, FIRN_EIO, "cannot read the audit: %s",
                         strerror(error));
    }
    if (tail)
        after = st.st_size > PIECE ? st.st_size - PIECE : 0;
    if (after > st.st_size)
        after = 0; /* another file by now */
    char *text = mem_new(PIECE, 1);
    ssize_t n = pread(fd, text, PIECE, after);
    close(fd);
    size_t from = n > 0 && tail ? tail_of(text, (size_t)n, most) : 0;
    *next = after;
    if (n > 0)
        *next += (int64_t)(from + add_lines(text + from, (size_t)n - from, most,
                                            json));
    mem_free(text);
    return FIRN_OK;
}
