/* files.c - folders in the order of their names, files as whole texts.
 *
 * (1) A system gives the entries of a folder in any order; they are sorted by
 *     bytes, whatever the locale, so that what is read is read in one order.
 * Cost: a sort of the names; a text is held once.
 */
#include "base/files.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/vec.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool files_ends(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

bool files_list(struct files *out, const char *dir, const char *ending)
{
    DIR *handle = opendir(dir);
    if (handle == NULL)
        return false;
    for (const struct dirent *e; (e = readdir(handle)) != NULL;) {
        struct firn_buf path = {0};
        if (e->d_name[0] == '.' || !files_ends(e->d_name, ending))
            continue;
        buf_printf(&path, "%s/%s", dir, e->d_name);
        vec_add(out, mem_strdup(path.at));
        buf_release(&path);
    }
    closedir(handle);
    if (out->n > 1)
        qsort(out->at, out->n, sizeof *out->at, by_name); /* (1) */
    return true;
}

void files_release(struct files *files)
{
    for (size_t i = 0; i < files->n; i++)
        mem_free(files->at[i]);
    vec_release(files);
}

static void add_line(struct firn_buf *out, const char *line)
{
    buf_puts(out, line);
    buf_putc(out, '\n');
}

enum firn_status files_text(struct firn_buf *out, const char *path,
                            struct firn_error *err)
{
    struct lines *in;
    FIRN_TRY(lines_open(&in, path, err));
    for (const char *line; (line = lines_next(in)) != NULL;)
        add_line(out, lines_bad(in) ? "?" : line);
    bool is_broken = lines_failed(in);
    lines_close(in);
    return is_broken ? firn_fail(err, FIRN_EIO, "%s: cannot be read", path)
                     : FIRN_OK;
}

const char *files_shipped(const char *const **at, struct firn_buf *text)
{
    const char *name = **at;
    buf_clear(text);
    if (name == NULL)
        return NULL;
    for ((*at)++; **at != NULL; (*at)++)
        add_line(text, **at);
    (*at)++;
    return name;
}
