/* report_charts.c - the charts of a report as files of their own.
 *
 * Every figure of the page becomes N-TITLE.svg, with what it needs to be read
 * alone: a name space, the styles of its texts, a white ground and its title.
 * For PNG the file is handed to rsvg-convert, so that firn draws by one program
 * only and needs no library for pictures.
 */
#include "base/buf.h"
#include "cli/output.h"
#include "cli/report.h"
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLUG_MAX = 40, STATUS_MISSING = 127 };

static const char style[] =
    "<style>text{font:11px sans-serif;fill:#465664}.e{text-anchor:end}"
    ".m{text-anchor:middle}.g{stroke:#e6ecf1}</style>"
    "<rect width='100%' height='100%' fill='#fff'/>";

/* "Completion times: percent" -> "completion-times-percent" */
static void put_slug(struct firn_buf *out, const char *title, size_t n)
{
    size_t start = out->n;
    for (size_t i = 0; i < n && out->n - start < SLUG_MAX; i++) {
        int c = tolower((unsigned char)title[i]);
        bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (is_kept)
            buf_putc(out, (char)c);
        else if (out->n > start && out->at[out->n - 1] != '-')
            buf_putc(out, '-');
    }
    while (out->n > start && out->at[out->n - 1] == '-')
        out->at[--out->n] = '\0';
}

/* Runs rsvg-convert on PATH.svg. */
static enum firn_status make_png(const char *svg, struct firn_error *err)
{
    char png[4096];
    size_t n = strlen(svg);
    int status = 0;
    if (n + 1 > sizeof png)
        return firn_fail(err, FIRN_EINVAL, "%s: the path is too long", svg);
    memcpy(png, svg, n + 1);
    memcpy(png + n - 3, "png", 4);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rsvg-convert", "rsvg-convert", "-z", "2", "-o", png, svg,
               (char *)NULL);
        _exit(STATUS_MISSING);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return FIRN_OK;
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_MISSING)
        return firn_fail(err, FIRN_ENOENT,
                         "PNG needs the program rsvg-convert (Debian: apt "
                         "install librsvg2-bin)");
    return firn_fail(err, FIRN_EIO, "rsvg-convert cannot convert %s", svg);
}

/* One figure: its title and its svg element. */
static enum firn_status write_figure(const char *dir, size_t number,
                                     const char *figure, bool is_png,
                                     struct firn_error *err)
{
    static const char mark[] = "<figcaption>";
    const char *title = strstr(figure, mark) + sizeof mark - 1;
    size_t ntitle = strcspn(title, "<");
    const char *svg = strstr(title, "<svg "), *end = strstr(svg, "</svg>");
    struct firn_buf path = {0}, text = {0};
    const char *body = strchr(svg, '>') + 1;
    buf_printf(&path, "%s/%zu-", dir, number);
    put_slug(&path, title, ntitle);
    buf_puts(&path, ".svg");
    buf_puts(&text, "<svg xmlns='http://www.w3.org/2000/svg' ");
    buf_add(&text, svg + 5, (size_t)(body - svg) - 5);
    buf_puts(&text, style);
    buf_puts(&text, "<title>");
    buf_add(&text, title, ntitle);
    buf_puts(&text, "</title>");
    buf_add(&text, body, (size_t)(end - body));
    buf_puts(&text, "</svg>\n");
    enum firn_status status = output_file(path.at, &text, err);
    if (status == FIRN_OK && is_png)
        status = make_png(path.at, err);
    buf_release(&path);
    buf_release(&text);
    return status;
}

enum firn_status report_charts(const struct firn_buf *page, const char *dir,
                               bool is_png, struct firn_error *err)
{
    size_t number = 0;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return firn_fail(err, FIRN_EIO, "%s: %s", dir, strerror(errno));
    const char *at = page->n > 0 ? page->at : "";
    for (; (at = strstr(at, "<figure>")) != NULL; at++)
        FIRN_TRY(write_figure(dir, ++number, at, is_png, err));
    return FIRN_OK;
}
