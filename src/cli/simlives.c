/* simlives.c - histories of jobs from event logs, for `firn sim --explain`.
 */
#include "cli/simlives.h"
#include "base/buf.h"
#include "base/lines.h"
#include "sim/explain.h"
#include <stdio.h>

void lives_begin(struct lives *lives, const struct words *jobs, bool is_json)
{
    *lives = (struct lives){.jobs = jobs, .is_json = is_json};
    for (size_t i = 0; i < jobs->n; i++) {
        struct firn_error none = {.status = FIRN_ENOENT};
        vec_add(&lives->missing, none);
    }
}

static void add(struct lives *lives, const struct explain *life)
{
    if (lives->is_json) {
        buf_puts(&lives->text, lives->text.n > 0 ? ",\n" : "\n");
        explain_json(life, &lives->text);
        return;
    }
    buf_puts(&lives->text, lives->text.n > 0 ? "\n" : "");
    explain_page(life, &lives->text);
}

void lives_add(struct lives *lives, const char *log_path, const char *where)
{
    struct lines *in;
    struct firn_error err = {0};
    if (lines_open(&in, log_path, &err) != FIRN_OK) {
        fprintf(stderr, "firn sim: %s\n", err.text);
        lives->has_failed = true;
        return;
    }
    for (size_t i = 0; i < lives->jobs->n; i++) {
        struct explain life;
        struct firn_error *missing = &lives->missing.at[i];
        enum firn_status status =
            explain_lines(&life, in, where, lives->jobs->at[i], &err);
        lines_seek(in, 0, 1);
        if (status == FIRN_OK) {
            missing->status = FIRN_OK;
            add(lives, &life);
            explain_release(&life);
        } else if (status == FIRN_ENOENT) {
            if (missing->status != FIRN_OK && missing->text[0] == '\0')
                *missing = err;
        } else {
            missing->status = FIRN_OK;
            fprintf(stderr, "firn sim: --explain: %s\n", err.text);
            lives->has_failed = true;
        }
    }
    lines_close(in);
}

int lives_end(struct lives *lives)
{
    for (size_t i = 0; i < lives->missing.n; i++) {
        const struct firn_error *missing = &lives->missing.at[i];
        if (missing->status == FIRN_OK || missing->text[0] == '\0')
            continue;
        fprintf(stderr, "firn sim: --explain: %s\n", missing->text);
        lives->has_failed = true;
    }
    return lives->has_failed ? 1 : 0;
}

void lives_print(const struct lives *lives, struct firn_buf *out)
{
    if (!lives->is_json) {
        buf_puts(out, out->n > 0 && lives->text.n > 0 ? "\n" : "");
        buf_add(out, lives->text.at, lives->text.n);
        return;
    }
    if (out->n > 2) /* "{...}\n": the brace is appended below */
        out->n -= 2;
    buf_puts(out, out->n > 0 ? ",\"lives\":[" : "{\"lives\":[");
    buf_add(out, lives->text.at, lives->text.n);
    buf_puts(out, "\n]}\n");
}

void lives_release(struct lives *lives)
{
    buf_release(&lives->text);
    vec_release(&lives->missing);
}
