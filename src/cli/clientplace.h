/* clientplace.h - where the daemon is asked, and with which token.
 */
#ifndef CLI_CLIENTPLACE_H
#define CLI_CLIENTPLACE_H
#include "cli/client.h"

struct client_place {
    char *socket; /* path of a Unix socket, or NULL */
    char *url;    /* "http://127.0.0.1:7070", no slash at its end, or NULL */
    char *token;  /* or NULL */
};

/* By flags, then by the environment, then as firnd has it. On failure `out` is
 * as it was. */
enum firn_status client_place_find(struct client_place *out,
                                   const struct client_where *where,
                                   struct firn_error *err);
void client_place_release(struct client_place *place);

/* Why nobody can be spoken to there, and what to do. */
enum firn_status client_place_away(const struct client_place *place,
                                   struct firn_error *err);

#endif
