/* cmd_top.c - `firn top`: GPUs and jobs on one screen, with keys for a job.
 *
 * Without a terminal it prints one page and exits. While firnd does not answer,
 * the page shows the error below the last answer. A key is answered at once:
 * the page is drawn again before the next request. Forecasts are asked for less
 * often than jobs, because firnd simulates for them; a firnd without forecasts
 * leaves their columns empty.
 */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"
#include "cli/livewords.h"
#include "cli/safetext.h"
#include "cli/screen.h"
#include "cli/toppage.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FORECAST_EVERY_S = 5, LOG_LINES = 200, PENDING_MOST = 1000 };

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
        "Shows GPUs, nodes and jobs, updated every second: place in the queue, "
        "expected start and end, how busy the GPUs of a job are. Keys: up and "
        "down select a job, enter shows it, w why it waits, l its output, c "
        "cancels it; s and r change the order, ? explains, q quits. Without a "
        "terminal it prints one page.",
    .table = table,
};

/* What is on the screen. */
enum mode { LIST, HELP, SHOW, WHY, LOGS, CANCEL };

struct top {
    struct live *live;
    json_t *jobs, *nodes, *forecast; /* the last answers */
    double forecast_s;               /* when it was asked for */
    struct top_list list;
    enum mode mode;
    double job;           /* of the modes but LIST and HELP */
    struct firn_buf text; /* of SHOW, WHY and LOGS */
    char message[256];    /* of a key */
    char error[256];      /* of the last update; "" for none */
};

static void top_release(struct top *top)
{
    json_decref(top->jobs);
    json_decref(top->nodes);
    json_decref(top->forecast);
    top_list_release(&top->list);
    buf_release(&top->text);
}

/* A firnd that has none, or is too busy, is no reason to stop. */
static void update_forecast(struct top *top)
{
    struct firn_error ignored = {0};
    json_t *forecast = NULL;
    double now_s = moment_now_s();
    if (now_s - top->forecast_s < FORECAST_EVERY_S)
        return;
    top->forecast_s = now_s;
    if (client_get(top->live->client, "/v1/forecast", &forecast, &ignored) !=
        FIRN_OK)
        return;
    json_decref(top->forecast);
    top->forecast = forecast;
}

static enum firn_status update(struct top *top, struct firn_error *err)
{
    json_t *jobs = NULL, *nodes = NULL;
    static const struct live_list which = {.most = PENDING_MOST};
    FIRN_TRY(live_jobs_get(top->live->client, &which, &jobs, err));
    enum firn_status status =
        client_get(top->live->client, "/v1/nodes", &nodes, err);
    if (status != FIRN_OK) {
        json_decref(jobs);
        return status;
    }
    update_forecast(top);
    json_decref(top->jobs);
    json_decref(top->nodes);
    top->jobs = jobs;
    top->nodes = nodes;
    return FIRN_OK;
}

static int print_once(struct live *live)
{
    struct top top = {.live = live};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (update(&top, &err) != FIRN_OK)
        return live_failed(live, &err);
    int rc = 0;
    if (live->is_json) {
        json_t *all =
            json_pack("{s:O, s:O}", "jobs", top.jobs, "nodes", top.nodes);
        if (top.forecast != NULL)
            json_object_set(all, "forecast", top.forecast);
        rc = live_write_json(live, all);
        json_decref(all);
    } else {
        struct top_shown shown = {top.jobs, top.nodes, "", moment_now_s(),
                                  false};
        top_list_set(&top.list, top.jobs, top.forecast);
        top_page(&top.list, &shown, 0, &out);
        rc = live_write(live, &out);
    }
    top_release(&top);
    buf_release(&out);
    return rc;
}

/* --- what a key does ------------------------------------------------------ */

static void make_path(struct firn_buf *path, double job, const char *behind)
{
    buf_printf(path, "/v1/jobs/%.0f%s", job, behind);
}

/* Gets the page of the mode anew. An error becomes its text. */
static void update_text(struct top *top)
{
    struct firn_buf path = {0}, raw = {0};
    struct firn_error err = {0};
    json_t *answer = NULL;
    int64_t next = 0;
    enum firn_status status;
    char tail[32];
    snprintf(tail, sizeof tail, "/logs?tail=%d", LOG_LINES);
    make_path(&path, top->job,
              top->mode == WHY    ? "/why"
              : top->mode == LOGS ? tail
                                  : "");
    status = top->mode == LOGS
                 ? client_piece(top->live->client, path.at, &raw, &next, &err)
                 : client_get(top->live->client, path.at, &answer, &err);
    buf_clear(&top->text);
    struct safe_feed feed = {0};
    if (status != FIRN_OK) {
        buf_printf(&top->text, "%s\n", err.text);
    } else if (top->mode == LOGS) {
        safe_feed(&feed, &top->text, (struct firn_bytes){raw.at, raw.n});
        safe_feed_end(&feed, &top->text);
    } else if (top->mode == WHY) {
        live_why_page(answer, &top->text);
    } else {
        live_job_page(answer, &top->text);
    }
    json_decref(answer);
    buf_release(&path);
    buf_release(&raw);
}

static void cancel(struct top *top)
{
    struct firn_buf path = {0};
    struct firn_error err = {0};
    make_path(&path, top->job, "/cancel");
    struct client_request request = {.method = "POST", .path = path.at};
    if (client_call(top->live->client, &request, NULL, &err) == FIRN_OK)
        snprintf(top->message, sizeof top->message, "job %.0f: cancelled",
                 top->job);
    else
        snprintf(top->message, sizeof top->message, "%.*s",
                 (int)sizeof top->message - 1, err.text);
    buf_release(&path);
}

static void open_job(struct top *top, enum mode mode)
{
    const struct top_row *row = top_list_selected(&top->list);
    if (row == NULL)
        return;
    top->mode = mode;
    top->job = row->id;
    if (mode == CANCEL)
        snprintf(top->message, sizeof top->message,
                 "cancel job %.0f? y: yes, other keys: no", top->job);
    else
        update_text(top);
}

static void list_key(struct top *top, int key)
{
    enum { PAGE = 10, FAR = 1 << 30 };
    struct top_list *list = &top->list;
    top->message[0] = '\0';
    if (key == SCREEN_UP || key == 'k')
        top_list_move(list, -1);
    else if (key == SCREEN_DOWN || key == 'j')
        top_list_move(list, 1);
    else if (key == SCREEN_PAGE_UP || key == SCREEN_PAGE_DOWN)
        top_list_move(list, key == SCREEN_PAGE_UP ? -PAGE : PAGE);
    else if (key == SCREEN_HOME || key == SCREEN_END)
        top_list_move(list, key == SCREEN_HOME ? -FAR : FAR);
    else if (key == 's')
        list->sort = (enum top_sort)((list->sort + 1) % TOP_NSORTS);
    else if (key == 'r')
        list->is_reversed = !list->is_reversed;
    else if (key == '?' || key == 'h')
        top->mode = HELP;
    else if (key == '\n' || key == '\r')
        open_job(top, SHOW);
    else if (key == 'w' || key == 'l' || key == 'c')
        open_job(top, key == 'w' ? WHY : key == 'l' ? LOGS : CANCEL);
}

/* False: quit. */
static bool take_key(struct top *top, int key)
{
    bool is_back = key == 'q' || key == 'Q' || key == SCREEN_ESCAPE;
    if (key == SCREEN_GONE || (top->mode == LIST && is_back))
        return false;
    if (top->mode == LIST) {
        list_key(top, key);
    } else if (top->mode == CANCEL) {
        top->message[0] = '\0';
        top->mode = LIST;
        if (key == 'y' || key == 'Y')
            cancel(top);
    } else if (is_back || top->mode == HELP) {
        top->mode = LIST;
    } else if (key == 'w' || key == 'l') {
        top->mode = key == 'w' ? WHY : LOGS;
        update_text(top);
    }
    return true;
}

/* --- the loop ------------------------------------------------------------- */

static void draw(struct top *top, const struct screen *screen)
{
    static const char *const titles[] = {[SHOW] = "job %.0f",
                                         [WHY] = "why: job %.0f",
                                         [LOGS] = "output of job %.0f"};
    struct firn_buf out = {0};
    int lines, columns;
    char title[64];
    screen_size(&lines, &columns);
    if (top->mode == HELP) {
        top_help(&out);
    } else if (top->mode == LIST || top->mode == CANCEL) {
        const char *line = top->error[0] != '\0' ? top->error : top->message;
        struct top_shown shown = {top->jobs, top->nodes, line, moment_now_s(),
                                  true};
        top_list_set(&top->list, top->jobs, top->forecast);
        top_page(&top->list, &shown, lines, &out);
    } else {
        snprintf(title, sizeof title, titles[top->mode], top->job); /* NOLINT */
        top_text(title, &top->text, lines, top->mode == LOGS, &out);
    }
    screen_draw(screen, out.at);
    buf_release(&out);
}

/* Draws until q or a signal. Returns the exit status. */
static int watch(struct live *live, struct screen *screen, double every_s)
{
    struct top top = {.live = live, .list = {.selected = -1}};
    double asked_s = 0;
    bool goes_on = true;
    while (goes_on) {
        double now_s = moment_now_s();
        if (now_s - asked_s >= every_s || now_s < asked_s) {
            struct firn_error err = {0};
            asked_s = now_s;
            (void)update(&top, &err);
            snprintf(top.error, sizeof top.error, "%.*s",
                     (int)sizeof top.error - 1, err.text);
            if (top.mode == LOGS)
                update_text(&top);
        }
        draw(&top, screen);
        if (!client_wait(asked_s + every_s - moment_now_s(), STDIN_FILENO))
            break;
        for (int key; goes_on && (key = screen_key(screen)) != 0;)
            goes_on = take_key(&top, key);
    }
    top_release(&top);
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
