/* screen.h - a full-screen page on a terminal, for `firn top`.
 *
 * Needs a terminal on standard input and output. While it is open the terminal
 * shows its alternate screen and delivers keys one by one without echo; closing
 * restores the previous screen.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H
#include <firn/bytes.h>
#include <stdbool.h>
#include <termios.h>

struct screen {
    struct termios before;
    bool is_open;
};

/* Returns false if there is no terminal. */
bool screen_open(struct screen *screen);
void screen_close(struct screen *screen);

/* Current size of the terminal; 24 lines of 80 columns if unknown. */
void screen_size(int *lines, int *columns);
/* The first character of a line may be one of these: how the line looks.
 * Without colours (NO_COLOR is set) only bold, dim and reverse remain. */
enum screen_style {
    SCREEN_PLAIN = 0, /* no character */
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_REVERSE,
    SCREEN_GREEN,
    SCREEN_YELLOW,
    SCREEN_RED,
    SCREEN_CYAN,
};

/* Draws the lines of `text` from the top, cut to the size of the screen, and
 * clears the rest. `text` has no control characters except newlines and
 * styles. */
void screen_draw(const struct screen *screen, const char *text);
/* The key pressed: a character, or one of these; 0: none. */
enum {
    SCREEN_GONE = 4, /* end of input */
    SCREEN_ESCAPE = 27,
    SCREEN_UP = 256,
    SCREEN_DOWN,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_HOME,
    SCREEN_END,
};
int screen_key(const struct screen *screen);
/* The key that these bytes are, read from a terminal. */
int screen_key_of(const char *bytes, size_t n);

/* Appends what screen_draw() writes for a screen of that size. */
void screen_compose(struct firn_buf *out, const char *text, int lines,
                    int columns, bool has_colours);

#endif
