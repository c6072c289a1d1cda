/* boardsession.h - sign-in of browsers: one-time codes and sessions.
 *
 * `firn board` asks for a code; the page exchanges it for a session, whose
 * token the browser then sends like any other token (Authorization: Bearer).
 * A session has the rights of the caller that asked for the code.
 */
#ifndef DAEMON_BOARDSESSION_H
#define DAEMON_BOARDSESSION_H
#include "daemon/http.h"

enum {
    BOARD_SECRET = 33,      /* bytes of a code or token with its NUL */
    BOARD_CODE_S = 60,      /* seconds that a code is valid */
    BOARD_SESSION_S = 43200 /* seconds that a session is valid */
};

struct boardsessions;

struct boardsessions *boardsessions_new(void);
void boardsessions_free(struct boardsessions *all);

/* Draws a code for one sign-in with the rights of `caller`. `now_s` is a clock
 * that never goes back. */
void boardsessions_code(struct boardsessions *all,
                        const struct http_caller *caller, double now_s,
                        char code[BOARD_SECRET]);
/* Exchanges a code for a session. Returns false for a code that is unknown,
 * used or older than BOARD_CODE_S; a known code is used up in any case. */
bool boardsessions_open(struct boardsessions *all, const char *code,
                        double now_s, char token[BOARD_SECRET]);
/* Sets `*caller` to the caller whose session has this token; returns false if
 * there is none. The address in `*caller` stays. */
bool boardsessions_find(const struct boardsessions *all, const char *token,
                        double now_s, struct http_caller *caller);
/* Ends the session. Returns false if there is none. */
bool boardsessions_end(struct boardsessions *all, const char *token);

#endif
