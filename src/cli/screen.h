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
/* Draws the lines of `text` from the top, cut to the size of the screen, and
 * clears the rest. `text` has no control characters except newlines. */
void screen_draw(const struct screen *screen, const char *text);
/* The key pressed; 0: none; SCREEN_GONE: end of input. */
enum { SCREEN_GONE = 4 };
char screen_key(const struct screen *screen);

/* Appends what screen_draw() writes for a screen of that size. */
void screen_compose(struct firn_buf *out, const char *text, int lines,
                    int columns);

#endif
