/* ports.h - reserves the ports at which the workers of an attempt meet.
 *
 *     struct ports ports;
 *     bool is_held = ports_hold(&ports, seed);
 *     ... workers listen at ports.first and at the two ports above it ...
 *     ports_release(&ports);
 *
 * Seconds pass between the choice of a port and the moment when a worker
 * listens there. Meanwhile another attempt on this host could choose the same
 * port, or another user could listen there and pass for the worker. So a socket
 * is bound to each port while the attempt lives; the kernel closes them with
 * the process that holds them.
 */
#ifndef ENGINE_PORTS_H
#define ENGINE_PORTS_H
#include <stdbool.h>
#include <stdint.h>

enum { PORTS_HELD = 3 };

struct ports {
    int first;            /* MASTER_PORT */
    int held[PORTS_HELD]; /* a socket for first, first + 1, first + 2; or -1 */
};

/* Tries ports in an order given by the seed. False: no three ports in a row
 * could be bound; `first` is then a port that is not held. */
bool ports_hold(struct ports *out, uint64_t seed);
/* Holds these ports if they are free: on a host where they were not chosen. */
void ports_hold_at(struct ports *out, int first);
void ports_release(struct ports *ports);

#endif
