/* livewords.c - why, eta and plan: the daemon's reasons and guesses, as pages.
 *
 * Its sentence comes first, then the numbers behind it by their names.
 */
#include "cli/livewords.h"
#include "base/buf.h"
#include "cli/safetext.h"
#include "cli/said.h"

/* A text of the answer as a line of its own, when it is there. */
static void put_line(const json_t *answer, const char *key, const char *label,
                     struct firn_buf *out)
{
    const char *text = said_text(answer, key);
    if (*text == '\0')
        return;
    buf_puts(out, label);
    safe_puts(out, text);
    buf_putc(out, '\n');
}

void live_why_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const told[] = {"id", "name", "text", "next", NULL};
    put_line(answer, "text", "", out);
    said_fields(answer, told, out);
    put_line(answer, "next", "next: ", out);
}

void live_eta_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const told[] = {"id", "name", "text", NULL};
    put_line(answer, "text", "", out);
    said_fields(answer, told, out);
}

void live_plan_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const told[] = {"text", NULL};
    put_line(answer, "text", "", out);
    said_fields(answer, told, out);
}
