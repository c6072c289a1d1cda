/* screen.c - a full-screen page on a terminal, for `firn top`.
 *
 * Uses a few ECMA-48 sequences that every terminal supports, so no terminal
 * library is needed. A page is one write(), so that it does not flicker.
 */
#include "cli/screen.h"
#include "base/buf.h"
#include "cli/safetext.h"
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, text, n);
        if (done <= 0)
            return; /* the terminal is gone */
        text += done;
        n -= (size_t)done;
    }
}

bool screen_open(struct screen *screen)
{
    static const char enter[] = "\x1b[?1049h\x1b[?25l";
    *screen = (struct screen){0};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
        tcgetattr(STDIN_FILENO, &screen->before) != 0)
        return false;
    struct termios keys = screen->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) != 0)
        return false;
    screen->is_open = true;
    write_all(enter, sizeof enter - 1);
    return true;
}

void screen_close(struct screen *screen)
{
    static const char leave[] = "\x1b[?25h\x1b[?1049l";
    if (!screen->is_open)
        return;
    write_all(leave, sizeof leave - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    screen->is_open = false;
}

void screen_size(int *lines, int *columns)
{
    struct winsize size = {0};
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *lines = is_known && size.ws_row > 0 ? size.ws_row : 24;
    *columns = is_known && size.ws_col > 0 ? size.ws_col : 80;
}

void screen_compose(struct firn_buf *out, const char *text, int lines,
                    int columns)
{
    buf_puts(out, "\x1b[H");
    for (int i = 0; i < lines && *text != '\0'; i++) {
        size_t n = strcspn(text, "\n");
        size_t shown = safe_prefix(text, (size_t)columns);
        buf_puts(out, i > 0 ? "\r\n" : "");
        buf_add(out, text, shown < n ? shown : n);
        buf_puts(out, "\x1b[K");
        text += n + (text[n] == '\n');
    }
    buf_puts(out, "\x1b[J");
}

void screen_draw(const struct screen *screen, const char *text)
{
    struct firn_buf out = {0};
    int lines, columns;
    if (!screen->is_open)
        return;
    screen_size(&lines, &columns);
    screen_compose(&out, text, lines, columns);
    write_all(out.at, out.n);
    buf_release(&out);
}

char screen_key(const struct screen *screen)
{
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    char c = 0;
    if (!screen->is_open || poll(&key, 1, 0) <= 0)
        return 0;
    return read(STDIN_FILENO, &c, 1) == 1 ? c : SCREEN_GONE;
}
