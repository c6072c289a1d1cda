/* clientstop.h - what client.c waits for besides the network.
 */
#ifndef CLI_CLIENTSTOP_H
#define CLI_CLIENTSTOP_H
#include "cli/client.h"

/* Readable when interrupted; -1: nothing is caught. */
int client_stop_fd(void);

#endif
