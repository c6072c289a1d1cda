/* screen.c - a full-screen page on a terminal, for `firn top`.
 *
 * Uses a few ECMA-48 sequences that every terminal supports, so no terminal
 * library is needed. A page is one write(), so that it does not flicker.
 */
#include "cli/screen.h"
#include "base/buf.h"
#include "cli/safetext.h"
#include <poll.h>
#include <stdlib.h>
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

/* The sequence of a style, and its end. */
static const char *style_text(int style, bool has_colours)
{
    static const char *const sequences[] = {"",         "\x1b[1m",  "\x1b[2m",
                                            "\x1b[7m",  "\x1b[32m", "\x1b[33m",
                                            "\x1b[31m", "\x1b[36m"};
    bool is_colour = style >= SCREEN_GREEN;
    return is_colour && !has_colours ? "" : sequences[style];
}

void screen_compose(struct firn_buf *out, const char *text, int lines,
                    int columns, bool has_colours)
{
    buf_puts(out, "\x1b[H");
    for (int i = 0; i < lines && *text != '\0'; i++) {
        int style = *text > 0 && *text <= SCREEN_CYAN ? *text++ : SCREEN_PLAIN;
        const char *begin = style_text(style, has_colours);
        size_t n = strcspn(text, "\n");
        size_t shown = safe_prefix(text, (size_t)columns);
        buf_puts(out, i > 0 ? "\r\n" : "");
        buf_puts(out, begin);
        buf_add(out, text, shown < n ? shown : n);
        buf_puts(out, *begin != '\0' ? "\x1b[0m" : "");
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
    const char *no_colour = getenv("NO_COLOR");
    screen_compose(&out, text, lines, columns,
                   no_colour == NULL || *no_colour == '\0');
    write_all(out.at, out.n);
    buf_release(&out);
}

int screen_key_of(const char *bytes, size_t n)
{
    static const struct {
        const char *bytes;
        int key;
    } keys[] = {
        {"\x1b[A", SCREEN_UP},       {"\x1bOA", SCREEN_UP},
        {"\x1b[B", SCREEN_DOWN},     {"\x1bOB", SCREEN_DOWN},
        {"\x1b[5~", SCREEN_PAGE_UP}, {"\x1b[6~", SCREEN_PAGE_DOWN},
        {"\x1b[H", SCREEN_HOME},     {"\x1b[1~", SCREEN_HOME},
        {"\x1b[F", SCREEN_END},      {"\x1b[4~", SCREEN_END},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].bytes) == n && memcmp(keys[i].bytes, bytes, n) == 0)
            return keys[i].key;
    if (n > 1 && bytes[0] == '\x1b')
        return 0; /* a key that is not used here */
    return n > 0 ? (unsigned char)bytes[0] : 0;
}

/* A key is one character, or all bytes that come with an escape character: a
 * terminal writes these at once. */
int screen_key(const struct screen *screen)
{
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[8];
    size_t n = 1;
    if (!screen->is_open || poll(&key, 1, 0) <= 0)
        return 0;
    if (read(STDIN_FILENO, bytes, 1) != 1)
        return SCREEN_GONE;
    while (bytes[0] == '\x1b' && n < sizeof bytes && poll(&key, 1, 0) > 0 &&
           read(STDIN_FILENO, &bytes[n], 1) == 1) {
        n++;
        if (n > 2 && (bytes[n - 1] == '~' ||
                      (bytes[n - 1] >= 'A' && bytes[n - 1] <= 'Z')))
            break;
    }
    return screen_key_of(bytes, n);
}
