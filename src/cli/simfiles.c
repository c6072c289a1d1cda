/* simfiles.c - names of the output files of `firn sim`.
 */
#include "cli/simfiles.h"
#include "base/buf.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

/* Sets the name of a trace: "b-vc1" for "a/b.csv#vc1". */
static void base_name(const char *trace, struct firn_buf *out)
{
    const char *group = strchr(trace, '#');
    size_t n = group ? (size_t)(group - trace) : strlen(trace), from = n;
    while (from > 0 && trace[from - 1] != '/')
        from--;
    size_t end = n;
    for (size_t i = from + 1; i < n; i++)
        if (trace[i] == '.')
            end = i;
    buf_clear(out);
    buf_add(out, trace + from, end - from);
    if (group)
        buf_printf(out, "-%s", group + 1);
    for (size_t i = 0; i < out->n; i++)
        if (!is_plain(out->at[i]))
            out->at[i] = '_';
}

static bool is_taken(const struct words *words, const char *text)
{
    for (size_t i = 0; i < words->n; i++)
        if (strcmp(words->at[i], text) == 0)
            return true;
    return false;
}

void simfiles_labels(const struct words *traces, struct words *out)
{
    struct firn_buf label = {0};
    for (size_t i = 0; i < traces->n; i++) {
        base_name(traces->at[i], &label);
        size_t n = label.n;
        for (int number = 2; is_taken(out, label.at); number++) {
            label.n = n;
            buf_printf(&label, "-%d", number);
        }
        words_add(out, label.at, label.n);
    }
    buf_release(&label);
}

enum firn_status simfiles_folder(const char *dir, struct firn_error *err)
{
    struct stat is;
    if (mkdir(dir, 0777) == 0)
        return FIRN_OK;
    int why = errno;
    if (why == EEXIST && stat(dir, &is) == 0 && S_ISDIR(is.st_mode))
        return FIRN_OK;
    if (why == EEXIST)
        why = ENOTDIR;
    return firn_fail(err, FIRN_EIO, "%s: %s", dir, strerror(why));
}

enum firn_status simfiles_scratch(struct firn_buf *out, struct firn_error *err)
{
    const char *parent = getenv("TMPDIR");
    buf_clear(out);
    buf_printf(out, "%s/firn-sim.XXXXXX",
               parent && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(out->at))
        return FIRN_OK;
    firn_fail(err, FIRN_EIO, "%s: %s", out->at, strerror(errno));
    buf_release(out);
    return FIRN_EIO;
}

void simfiles_path(const char *dir, const char *label, const char *policy,
                   const char *kind, struct firn_buf *out)
{
    buf_clear(out);
    buf_printf(out, "%s/%s--%s.%s", dir, label, policy, kind);
}
