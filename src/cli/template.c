/* template.c - finds and fills templates: see the header.
 */
#include "cli/template.h"
#include "base/buf.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MOST = 60 };

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

static bool is_there(struct firn_buf *path, const char *folder,
                     const char *below, const char *name)
{
    buf_clear(path);
    buf_printf(path, "%s%s/%s.yaml", folder, below, name);
    return access(path->at, R_OK) == 0;
}

enum firn_status template_find(struct firn_buf *path, const char *name,
                               struct firn_error *err)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (strchr(name, '/') != NULL) {
        buf_puts(path, name);
        return FIRN_OK;
    }
    if (config != NULL && config[0] == '/' &&
        is_there(path, config, "/firn/templates", name))
        return FIRN_OK;
    if (config == NULL && home != NULL &&
        is_there(path, home, "/.config/firn/templates", name))
        return FIRN_OK;
    if (is_there(path, "/etc", "/firn/templates", name))
        return FIRN_OK;
    return firn_fail(err, FIRN_ENOENT,
                     "there is no template '%.60s': templates are files "
                     "NAME.yaml in ~/.config/firn/templates or "
                     "/etc/firn/templates; a path has a '/'",
                     name);
}

/* The value of a name; NULL: not given. Notes that it was used. */
static const char *value_of(const struct words *with, const char *name,
                            size_t n, bool *used)
{
    for (size_t i = 0; i < with->n; i++)
        if (strncmp(with->at[i], name, n) == 0 && with->at[i][n] == '=') {
            used[i] = true;
            return with->at[i] + n + 1;
        }
    return NULL;
}

/* One placeholder from behind "{{"; the place behind its "}}", or NULL. */
static const char *fill_one(struct firn_buf *out, const char *at,
                            const struct words *with, bool *used,
                            struct firn_error *err)
{
    size_t n = strspn(at, letters);
    const char *end = strstr(at, "}}");
    bool has_default = at[n] == ':';
    if (n == 0 || n > NAME_MOST || end == NULL ||
        (!has_default && at + n != end)) {
        firn_fail(err, FIRN_EINVAL,
                  "'{{%.40s' is no placeholder such as {{name}} or "
                  "{{name:default}}",
                  at);
        return NULL;
    }
    const char *value = value_of(with, at, n, used);
    if (value == NULL && !has_default) {
        firn_fail(err, FIRN_EINVAL,
                  "no value for {{%.*s}}: give --with %.*s=VALUE", (int)n, at,
                  (int)n, at);
        return NULL;
    }
    if (value != NULL)
        buf_puts(out, value);
    else
        buf_add(out, at + n + 1, (size_t)(end - at) - n - 1);
    return end + 2;
}

enum firn_status template_fill(struct firn_buf *out, const char *text,
                               const struct words *with, struct firn_error *err)
{
    bool *used = mem_new(with->n + 1, sizeof *used);
    const char *at = text, *next = NULL;
    enum firn_status status = FIRN_OK;
    while (status == FIRN_OK && (next = strstr(at, "{{")) != NULL) {
        buf_add(out, at, (size_t)(next - at));
        at = fill_one(out, next + 2, with, used, err);
        if (at == NULL)
            status = err->status;
    }
    if (status == FIRN_OK)
        buf_puts(out, at);
    for (size_t i = 0; status == FIRN_OK && i < with->n; i++)
        if (!used[i])
            status = firn_fail(err, FIRN_EINVAL,
                               "--with %.60s: the job file has no such "
                               "placeholder, or the word is not NAME=VALUE",
                               with->at[i]);
    mem_free(used);
    return status;
}
