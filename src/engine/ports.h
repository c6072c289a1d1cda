/* ports.h - the ports at which the workers of an attempt meet, kept for them.
 *
 *     struct ports ports;
 *     bool is_held = ports_hold(&ports, seed);
 *     ... workers listen at ports.first and at the two ports above it ...
 *     ports_release(&ports);
 *
 * Seconds pass between the choice of a port and the moment when a worker
 * listens there. In between another attempt of this host could choose the same
 * port, and another user of the host could listen there first and be taken for
 * the worker. So a socket is bound to each port for as long as the attempt
 * lives; the kernel lets them go with the process that holds them.
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

/* The same ports are tried first for the same seed. False: no three ports in a
 * row could be bound; `first` is a port all the same, that is not held. */
bool ports_hold(struct ports *out, uint64_t seed);
/* Holds these ports, as far as they are free: on another host than the one
 * where they were chosen. */
void ports_hold_at(struct ports *out, int first);
void ports_release(struct ports *ports);

#endif
