/* live.c - shared parts of the commands that talk to firnd.
 */
#include "cli/live.h"
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/output.h"
#include "cli/safetext.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

int live_open(struct live *live, const struct flags_page *page,
              const struct live_args *args)
{
    struct firn_error err = {0};
    *live = (struct live){.page = page, .is_json = args->is_json};
    if (args->where.socket != NULL && args->where.url != NULL)
        return flags_wrong(page, "--socket and --url exclude each other");
    if (!args->is_offline &&
        client_open(&live->client, &args->where, &err) != FIRN_OK)
        return live_failed(live, &err);
    return -1;
}

void live_close(struct live *live)
{
    client_close(live->client);
    live->client = NULL;
}

int live_failed(const struct live *live, const struct firn_error *err)
{
    if (err->status == FIRN_EINTR)
        return 130;
    fprintf(stderr, "firn %s: %s\n", live->page->command, err->text);
    return 1;
}

int live_write(const struct live *live, const struct firn_buf *text)
{
    return output_write(live->page->command, text);
}

int live_write_json(const struct live *live, const json_t *answer)
{
    struct firn_buf out = {0};
    answer_print(answer, &out);
    int rc = live_write(live, &out);
    buf_release(&out);
    return rc;
}

int live_show(struct live *live, const char *path, live_printer *print)
{
    struct firn_error err = {0};
    struct firn_buf out = {0};
    json_t *answer = NULL;
    if (client_get(live->client, path, &answer, &err) != FIRN_OK)
        return live_failed(live, &err);
    (live->is_json ? answer_print : print)(answer, &out);
    int rc = live_write(live, &out);
    buf_release(&out);
    json_decref(answer);
    return rc;
}

int live_shown_run(const struct live_shown *shown, int argc, char **argv)
{
    struct live_args args = {0};
    struct live live;
    struct firn_buf path = {0};
    int nnames = shown->behind != NULL ? 1 : 0;
    int rc = flags_parse(shown->page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(shown->page, argc, argv, nnames, nnames, "job");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, shown->page, &args);
    if (rc < 0) {
        buf_puts(&path, shown->before);
        if (nnames > 0) {
            client_escape(&path, argv[1]);
            buf_puts(&path, shown->behind);
        }
        rc = live_show(&live, path.at, shown->print);
    }
    live_close(&live);
    buf_release(&path);
    return rc;
}

/* Appends "job 12 (resnet) is cancelled". */
static void put_done(const struct live_verb *verb, const char *word,
                     const json_t *answer, struct firn_buf *out)
{
    double id = answer_number(answer, "id", -1);
    const char *name = answer_text(answer, "name");
    buf_printf(out, "%s ", verb->what);
    if (id >= 0)
        buf_printf(out, "%.0f (", id);
    safe_puts(out, *name != '\0' ? name : word);
    const char *state = answer_text(answer, "state");
    bool is_held = answer_yes(answer, "held") && strcmp(state, "pending") != 0;
    bool is_under_way = verb->begun != NULL &&
                        strcmp(state, "cancelled") != 0 &&
                        (answer_yes(answer, "ending") || is_held);
    buf_printf(out, "%s %s\n", id >= 0 ? ")" : "",
               is_under_way ? verb->begun : verb->done);
}

static int do_verb(const struct live_verb *verb, struct live *live, int n,
                   char **words)
{
    struct firn_buf out = {0}, path = {0};
    json_t *answers = json_array();
    int rc = 0;
    for (int i = 0; i < n && rc != 130; i++) {
        struct firn_error err = {0};
        json_t *answer = NULL;
        buf_clear(&path);
        buf_puts(&path, verb->before);
        client_escape(&path, words[i]);
        buf_puts(&path, verb->behind);
        struct client_request request = {
            .method = verb->method != NULL ? verb->method : "POST",
            .path = path.at};
        if (client_call(live->client, &request, &answer, &err) != FIRN_OK) {
            rc = live_failed(live, &err);
            continue;
        }
        put_done(verb, words[i], answer, &out);
        json_array_append_new(answers, answer);
    }
    int written =
        live->is_json ? live_write_json(live, answers) : live_write(live, &out);
    json_decref(answers);
    buf_release(&out);
    buf_release(&path);
    return rc != 0 ? rc : written;
}

int live_verb_run(const struct live_verb *verb, int argc, char **argv)
{
    struct live_args args = {0};
    int rc = flags_parse(verb->page, &args, &argc, argv);
    return rc >= 0 ? rc : live_verb_do(verb, &args, argc, argv);
}

int live_verb_do(const struct live_verb *verb, const struct live_args *args,
                 int argc, char **argv)
{
    struct live live;
    int rc = flags_operands(verb->page, argc, argv, 1, INT_MAX, verb->what);
    if (rc >= 0)
        return rc;
    rc = live_open(&live, verb->page, args);
    if (rc < 0)
        rc = do_verb(verb, &live, argc - 1, argv + 1);
    live_close(&live);
    return rc;
}
