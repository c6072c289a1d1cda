/* clientplace.h - address and token of firnd.
 */
#ifndef CLI_CLIENTPLACE_H
#define CLI_CLIENTPLACE_H
#include "cli/client.h"

struct client_place {
    char *socket; /* path of a UNIX socket, or NULL */
    char *url;    /* "http://127.0.0.1:7070" without a final slash, or NULL */
    char *token;  /* or NULL */
};

/* From the options, else the environment, else firnd's default. Does not change
 * `out` on failure. */
enum firn_status client_place_find(struct client_place *out,
                                   const struct client_where *where,
                                   struct firn_error *err);
void client_place_release(struct client_place *place);

/* Fails with the reason why firnd cannot be reached, and the remedy. */
enum firn_status client_place_away(const struct client_place *place,
                                   struct firn_error *err);

#endif
