/* notify.h - tells systemd that firnd is ready, alive and stopping.
 *
 *     struct notify notify;
 *     notify_open(&notify);             from NOTIFY_SOCKET and WATCHDOG_USEC
 *     notify_ready(&notify);            READY=1
 *     notify_alive(&notify);            WATCHDOG=1, when half its time is over
 *     notify_stopping(&notify);         STOPPING=1
 *     notify_close(&notify);
 *
 * Without NOTIFY_SOCKET nothing is sent.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: there is no socket to send to */
    struct sockaddr_un to;
    socklen_t to_n;
    double every_s; /* between two signs of life; 0: none are wanted */
    double sent_s;  /* the last of them, by clock_elapsed_s() */
    bool has_failed;
};

/* Reads the variables and takes them out of the environment, so that no job
 * inherits them. What cannot be understood is said in the log and left out. */
void notify_open(struct notify *notify);
void notify_close(struct notify *notify);
void notify_ready(struct notify *notify);
void notify_stopping(struct notify *notify);
/* A sign of life, if one is due. Seconds until the next; INFINITY: never. */
double notify_alive(struct notify *notify);

#endif
