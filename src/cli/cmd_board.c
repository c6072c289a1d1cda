/* cmd_board.c - `firn board`: a link with which a browser is signed in.
 *
 * firnd draws a code that is valid for a minute and for one sign-in. It stands
 * behind the '#' of the link: a browser sends that part to no server, so that
 * no log and no proxy has it.
 */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/safetext.h"
#include <stdio.h>

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "board",
    .usage = "[options]",
    .about =
        "Prints a link to the board: firnd's page for browsers, with the "
        "cluster, the queue, jobs and a timeline. The link signs one browser "
        "in with your rights; it is valid for 60 seconds and for one use.\n"
        "firnd must listen on an address: start it with --listen "
        "127.0.0.1:7070 --token-file FILE. On another host, forward the port: "
        "ssh -L 7070:127.0.0.1:7070 HOST.",
    .table = table,
};

static int print_link(struct live *live, const char *url, const json_t *answer)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    if (url == NULL)
        url = answer_text(answer, "url");
    if (url[0] == '\0') {
        firn_fail(&err, FIRN_EINVAL,
                  "firnd listens on no address that a browser can open: start "
                  "it with --listen 127.0.0.1:7070 --token-file FILE");
        return live_failed(live, &err);
    }
    safe_puts(&out, url);
    buf_puts(&out, url[0] != '\0' && out.at[out.n - 1] == '/' ? "#k=" : "/#k=");
    safe_puts(&out, answer_text(answer, "code"));
    buf_putc(&out, '\n');
    int rc = live_write(live, &out);
    buf_release(&out);
    return rc;
}

static int run(struct live *live, const struct live_args *args)
{
    struct client_request request = {.method = "POST",
                                     .path = "/v1/board/links"};
    struct firn_error err = {0};
    json_t *answer = NULL;
    if (client_call(live->client, &request, &answer, &err) != FIRN_OK)
        return live_failed(live, &err);
    int rc = live->is_json ? live_write_json(live, answer)
                           : print_link(live, args->where.url, answer);
    json_decref(answer);
    return rc;
}

int cmd_board(int argc, char **argv)
{
    struct live_args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = run(&live, &args);
    live_close(&live);
    return rc;
}
