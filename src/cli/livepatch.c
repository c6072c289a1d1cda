/* livepatch.c - sends a PATCH and prints the answer.
 */
#include "cli/livepatch.h"
#include "base/buf.h"
#include "cli/answer.h"

int live_patch(struct live *live, const char *before, const char *name,
               json_t *body, live_printer *print)
{
    struct firn_error err = {0};
    struct firn_buf path = {0}, text = {0}, out = {0};
    json_t *answer = NULL;
    int rc = 0;
    buf_puts(&path, before);
    client_escape(&path, name);
    answer_print(body, &text);
    json_decref(body);
    struct client_request request = {.method = "PATCH",
                                     .path = path.at,
                                     .content_type = "application/json",
                                     .body = {text.at, text.n}};
    if (client_call(live->client, &request, &answer, &err) != FIRN_OK) {
        rc = live_failed(live, &err);
    } else {
        (live->is_json ? answer_print : print)(answer, &out);
        rc = live_write(live, &out);
    }
    json_decref(answer);
    buf_release(&path);
    buf_release(&text);
    buf_release(&out);
    return rc;
}
