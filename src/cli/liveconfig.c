/* liveconfig.c - puts the text of a config.json into a job file.
 *
 * `firn submit` and `firn plan` read the file, not firnd: firnd may run on
 * another machine (over TCP), and as another user, who must not be made to read
 * files that the submitting user may not. firnd gets the text in the place of
 * the path, checks it and keeps it with the job, so that the model stays the
 * same when the file changes.
 *
 * The path is found by libyaml's events: the value of `config` in the mapping
 * at `model` of the file's mapping. libyaml counts characters, so that its
 * place is converted to bytes. The text becomes a scalar in single quotes,
 * which YAML reads as it is but for doubled quotes; blanks outside of strings
 * are dropped, so that it is one line and firnd's lines stay those of the file.
 */
#include "cli/liveconfig.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/yamltext.h"
#include "cli/livefile.h"
#include "core/jobfields.h"
#include <firn/arch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 8 };

struct finding {
    int depth; /* of the mappings and lists that are open */
    struct {
        bool is_map, is_value; /* the next scalar is the value of `key` */
        char key[16];
    } level[DEPTH_MAX];
    char *path; /* NULL: none found */
    size_t from, to;
};

static bool is_at(const struct finding *f, int level, const char *key)
{
    return f->level[level].is_map && f->level[level].is_value &&
           strcmp(f->level[level].key, key) == 0;
}

static void take_scalar(struct finding *f, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    int top = f->depth - 1;
    if (top < 0 || top >= DEPTH_MAX || !f->level[top].is_map)
        return;
    if (f->path == NULL && top == 1 && is_at(f, 0, "model") &&
        is_at(f, 1, "config") && text[0] != '\0' &&
        text[strspn(text, " \t\n")] != '{') {
        f->path = mem_strdup(text);
        f->from = event->start_mark.index;
        f->to = event->end_mark.index;
    }
    if (!f->level[top].is_value)
        str_copy(f->level[top].key, sizeof f->level[top].key, text);
    f->level[top].is_value = !f->level[top].is_value;
}

static const char *find(void *arg, const yaml_event_t *event)
{
    struct finding *f = arg;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        take_scalar(f, event);
        break;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        if (f->depth < DEPTH_MAX) {
            f->level[f->depth].is_map = event->type == YAML_MAPPING_START_EVENT;
            f->level[f->depth].is_value = false;
        }
        f->depth++;
        break;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        f->depth--;
        if (f->depth > 0 && f->depth <= DEPTH_MAX)
            f->level[f->depth - 1].is_value = false;
        break;
    default:
        break;
    }
    return NULL;
}

/* Where character `index` begins; a mark of the byte order is not counted. */
static size_t byte_of(const struct firn_buf *text, size_t index)
{
    size_t at = 0;
    if (text->n >= 3 && memcmp(text->at, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    for (; at < text->n && index > 0; index--)
        for (at++;
             at < text->n && ((unsigned char)text->at[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

/* Without blanks between the parts, in single quotes. */
static void put_quoted(struct firn_buf *out, const struct firn_buf *json)
{
    bool is_string = false;
    buf_putc(out, '\'');
    for (size_t i = 0; i < json->n; i++) {
        char c = json->at[i];
        if (!is_string && strchr(" \t\r\n", c) != NULL)
            continue;
        if (c == '"')
            is_string = !is_string;
        if (c == '\\' && is_string && i + 1 < json->n) {
            buf_putc(out, c);
            c = json->at[++i];
        }
        if (c == '\'')
            buf_putc(out, c);
        buf_putc(out, c);
    }
    buf_putc(out, '\'');
}

static enum firn_status read_config(struct firn_buf *out, const char *path,
                                    struct firn_error *err)
{
    struct firn_arch arch;
    FIRN_TRY(live_file_read(out, path, err));
    if (out->n > JOB_CONFIG_MAX)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: the file has %zu bytes; a config.json has at "
                         "most 64 KiB",
                         path, out->n);
    if (firn_arch_read(&arch, (struct firn_bytes){out->at, out->n}, err) !=
        FIRN_OK)
        return firn_fail_in(err, path);
    if (arch.taken[0] != '\0')
        fprintf(stderr, "%s: model_type '%s' is not known; taken for %s\n",
                path, arch.family, arch.taken);
    return FIRN_OK;
}

enum firn_status live_config_put(struct firn_buf *text, const char *where,
                                 struct firn_error *err)
{
    struct finding f = {0};
    struct firn_buf path = {0}, json = {0}, out = {0};
    enum firn_status status = FIRN_OK;
    if (text->n == 0 || yaml_walk((struct firn_bytes){text->at, text->n}, "",
                                  find, &f, NULL) != FIRN_OK) {
        mem_free(f.path);
        return FIRN_OK;
    }
    if (f.path != NULL) {
        const char *slash = where != NULL ? strrchr(where, '/') : NULL;
        if (f.path[0] != '/' && slash != NULL)
            buf_add(&path, where, (size_t)(slash - where) + 1);
        buf_puts(&path, f.path);
        status = read_config(&json, path.at, err);
    }
    if (f.path != NULL && status == FIRN_OK) {
        size_t from = byte_of(text, f.from), to = byte_of(text, f.to);
        buf_add(&out, text->at, from);
        put_quoted(&out, &json);
        buf_add(&out, text->at + to, text->n - to);
        buf_release(text);
        *text = out;
    }
    mem_free(f.path);
    buf_release(&path);
    buf_release(&json);
    return status;
}
