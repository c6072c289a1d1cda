/* screen.h - a terminal as a page that is drawn again and again.
 *
 * Only when standard input and output are both terminals. While it is open the
 * terminal shows a second screen and hands over keys one by one, without
 * showing them; closing gives back what was there.
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

/* False: there is no terminal. */
bool screen_open(struct screen *screen);
void screen_close(struct screen *screen);

/* Lines and columns there are now; 24 and 80 when nobody knows. */
void screen_size(int *lines, int *columns);
/* Draws the lines of `text` from the top, cut to what there is room for, and
 * clears the rest. They have no control characters but ends of lines. */
void screen_draw(const struct screen *screen, const char *text);
/* The key that was pressed; 0: none; SCREEN_GONE: there will be no more. */
enum { SCREEN_GONE = 4 };
char screen_key(const struct screen *screen);

/* What screen_draw() writes, for `lines` of `columns`. */
void screen_compose(struct firn_buf *out, const char *text, int lines,
                    int columns);

#endif
