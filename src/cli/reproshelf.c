/* reproshelf.c - where scenarios are found.
 *
 * The build turns papers/ into papers.inc, a list of strings in which NULL
 * ends a file and its first string is the file's name.
 */
#include "cli/reproshelf.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/vec.h"
#include "cli/flags.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const builtin[] = {
#if __has_include("cli/papers.inc")
#include "cli/papers.inc"
#endif
    NULL};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_yaml(const char *name)
{
    size_t n = strlen(name);
    return name[0] != '.' && n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

static enum firn_status list(const char *dir, struct words *out,
                             struct firn_error *err)
{
    DIR *handle = opendir(dir);
    if (handle == NULL)
        return firn_fail(err, FIRN_EIO, "%s: %s", dir, strerror(errno));
    for (const struct dirent *e; (e = readdir(handle)) != NULL;) {
        struct firn_buf path = {0};
        if (!is_yaml(e->d_name))
            continue;
        buf_printf(&path, "%s/%s", dir, e->d_name);
        words_add(out, path.at, path.n);
        buf_release(&path);
    }
    closedir(handle);
    if (out->n == 0)
        return firn_fail(err, FIRN_ENOENT, "%s: has no .yaml file", dir);
    qsort(out->at, out->n, sizeof *out->at, by_name);
    return FIRN_OK;
}

static enum firn_status add(struct repro_shelf *shelf, struct firn_bytes text,
                            const char *where, struct firn_error *err)
{
    struct repro_scenario *it;
    FIRN_TRY(scenario_parse(&it, text, where, err));
    for (size_t i = 0; i < shelf->n; i++)
        if (strcmp(shelf->at[i]->name, it->name) == 0) {
            firn_fail(err, FIRN_EINVAL, "%s: there is another '%s'", where,
                      it->name);
            scenario_free(it);
            return FIRN_EINVAL;
        }
    vec_add(shelf, it);
    return FIRN_OK;
}

static enum firn_status read_file(struct repro_shelf *shelf, const char *path,
                                  struct firn_error *err)
{
    struct lines *in;
    struct firn_buf text = {0};
    FIRN_TRY(lines_open(&in, path, err));
    for (const char *line; (line = lines_next(in)) != NULL;) {
        buf_puts(&text, lines_bad(in) ? "?" : line);
        buf_putc(&text, '\n');
    }
    bool is_broken = lines_failed(in);
    lines_close(in);
    enum firn_status status =
        is_broken ? firn_fail(err, FIRN_EIO, "%s: cannot be read", path)
                  : add(shelf, (struct firn_bytes){text.at, text.n}, path, err);
    buf_release(&text);
    return status;
}

static enum firn_status read_folder(struct repro_shelf *shelf, const char *dir,
                                    struct firn_error *err)
{
    struct words paths = {0};
    enum firn_status status = list(dir, &paths, err);
    for (size_t i = 0; i < paths.n && status == FIRN_OK; i++)
        status = read_file(shelf, paths.at[i], err);
    words_release(&paths);
    return status;
}

static enum firn_status read_builtin(struct repro_shelf *shelf,
                                     struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; builtin[i] != NULL && status == FIRN_OK; i++) {
        const char *where = builtin[i];
        buf_clear(&text);
        for (i++; builtin[i] != NULL; i++) {
            buf_puts(&text, builtin[i]);
            buf_putc(&text, '\n');
        }
        status = add(shelf, (struct firn_bytes){text.at, text.n}, where, err);
    }
    buf_release(&text);
    return status;
}

enum firn_status shelf_read(struct repro_shelf *out, const char *dir,
                            struct firn_error *err)
{
    struct repro_shelf shelf = {0};
    enum firn_status status =
        dir != NULL ? read_folder(&shelf, dir, err) : read_builtin(&shelf, err);
    if (status == FIRN_OK)
        *out = shelf;
    else
        shelf_release(&shelf);
    return status;
}

void shelf_release(struct repro_shelf *shelf)
{
    for (size_t i = 0; i < shelf->n; i++)
        if (shelf->at[i] != NULL)
            scenario_free(shelf->at[i]);
    vec_release(shelf);
}
