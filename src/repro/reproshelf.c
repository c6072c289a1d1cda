/* reproshelf.c - reads all scenarios, sorted by file name.
 *
 * The build turns papers/ into papers.inc; see files_shipped().
 */
#include "repro/reproshelf.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/vec.h"
#include <errno.h>
#include <string.h>

static const char *const builtin[] = {
#if __has_include("repro/papers.inc")
#include "repro/papers.inc"
#endif
    NULL};

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
    struct firn_buf text = {0};
    enum firn_status status = files_text(&text, path, err);
    if (status == FIRN_OK)
        status = add(shelf, (struct firn_bytes){text.at, text.n}, path, err);
    buf_release(&text);
    return status;
}

static enum firn_status read_folder(struct repro_shelf *shelf, const char *dir,
                                    struct firn_error *err)
{
    struct files paths = {0};
    if (!files_list(&paths, dir, ".yaml"))
        return firn_fail(err, FIRN_EIO, "%s: %s", dir, strerror(errno));
    enum firn_status status = FIRN_OK;
    if (paths.n == 0)
        status = firn_fail(err, FIRN_ENOENT, "%s: has no .yaml file", dir);
    for (size_t i = 0; i < paths.n && status == FIRN_OK; i++)
        status = read_file(shelf, paths.at[i], err);
    files_release(&paths);
    return status;
}

static enum firn_status read_builtin(struct repro_shelf *shelf,
                                     struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = FIRN_OK;
    const char *const *at = builtin;
    for (const char *where;
         status == FIRN_OK && (where = files_shipped(&at, &text)) != NULL;)
        status = add(shelf, (struct firn_bytes){text.at, text.n}, where, err);
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
