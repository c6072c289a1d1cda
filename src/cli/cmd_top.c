/* cmd_top.c - `firn top`: GPUs and jobs, updated every second.
 *
 * Without a terminal it prints one page and exits. While firnd does not answer,
 * the page shows the error above the last answer.
 */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"
#include "cli/livenodes.h"
#include "cli/screen.h"
#include <unistd.h>

struct args {
    struct live_args live;
    double every_s;
    bool is_once;
};

static const struct flag table[] = {
    {"every", 0, "TIME", "time between two updates (default: 1s)",
     flag_duration, offsetof(struct args, every_s)},
    {"once", '1', NULL, "print one page and exit", flag_yes,
     offsetof(struct args, is_once)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "top",
    .usage = "[options]",
    .about =
        "Shows GPUs, nodes and jobs, updated every second; q quits. Without "
        "a terminal it prints one page.",
    .table = table,
};

/* The last answers of firnd. */
struct answers {
    json_t *jobs, *nodes;
};

static void answers_release(struct answers *answers)
{
    json_decref(answers->jobs);
    json_decref(answers->nodes);
}

static enum firn_status update(struct live *live, struct answers *answers,
                               struct firn_error *err)
{
    json_t *jobs = NULL, *nodes = NULL;
    static const struct live_list which = {.most = 1000};
    FIRN_TRY(live_jobs_get(live->client, &which, &jobs, err));
    enum firn_status status =
        client_get(live->client, "/v1/nodes", &nodes, err);
    if (status != FIRN_OK) {
        json_decref(jobs);
        return status;
    }
    answers_release(answers);
    *answers = (struct answers){jobs, nodes};
    return FIRN_OK;
}

static void compose(const struct answers *answers, size_t most,
                    struct firn_buf *out)
{
    enum { BAR_WIDTH = 30 };
    double ngpus, nfree;
    live_nodes_sum(answers->nodes, &ngpus, &nfree);
    double share = ngpus > 0 ? (ngpus - nfree) / ngpus : 0;
    buf_puts(out, "firn  ");
    buf_moment(out, moment_now_s());
    buf_printf(out, "   %zu running, %zu%s pending\n",
               live_jobs_count(answers->jobs, "running"),
               live_jobs_count(answers->jobs, "pending"),
               answer_yes(answers->jobs, "more") ? " and more" : "");
    buf_puts(out, "GPUs  [");
    for (int i = 0; i < BAR_WIDTH; i++)
        buf_putc(out, i < (int)(share * BAR_WIDTH + 0.5) ? '#' : ' ');
    buf_printf(out, "] %.0f of %.0f in use\n\n", ngpus - nfree, ngpus);
    live_nodes_table(answers->nodes, out);
    buf_putc(out, '\n');
    live_jobs_lines(answers->jobs, most, out);
}

static int print_once(struct live *live)
{
    struct answers answers = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (update(live, &answers, &err) != FIRN_OK)
        return live_failed(live, &err);
    int rc = 0;
    if (live->is_json) {
        json_t *both = json_pack("{s:O, s:O}", "jobs", answers.jobs, "nodes",
                                 answers.nodes);
        rc = live_write_json(live, both);
        json_decref(both);
    } else {
        compose(&answers, (size_t)-1, &out);
        rc = live_write(live, &out);
    }
    answers_release(&answers);
    buf_release(&out);
    return rc;
}

/* Draws until a key or a signal. Returns the exit status. */
static int watch(struct live *live, struct screen *screen, double every_s)
{
    struct answers answers = {0};
    struct firn_buf out = {0};
    int lines, columns;
    char key = 0;
    do {
        struct firn_error err = {0};
        enum firn_status status = update(live, &answers, &err);
        buf_clear(&out);
        screen_size(&lines, &columns);
        if (status != FIRN_OK)
            buf_printf(&out, "%s\n", err.text);
        compose(&answers, lines > 0 ? (size_t)lines : 1, &out);
        screen_draw(screen, out.at);
        if (!client_wait(every_s, STDIN_FILENO))
            break;
        key = screen_key(screen);
    } while (key != 'q' && key != 'Q' && key != SCREEN_GONE);
    answers_release(&answers);
    buf_release(&out);
    return client_interrupted() ? 130 : 0;
}

int cmd_top(int argc, char **argv)
{
    struct args args = {.every_s = 1};
    struct live live;
    struct screen screen = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0 && (args.is_once || live.is_json || !screen_open(&screen)))
        rc = print_once(&live);
    if (rc < 0) {
        client_catch_interrupts();
        rc = watch(&live, &screen, args.every_s > 0.1 ? args.every_s : 0.1);
    }
    screen_close(&screen);
    live_close(&live);
    return rc;
}
