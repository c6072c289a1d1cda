/* ports.h - a port for the processes of an epoch, promised to nobody else.
 *
 *     int promise = -1;
 *     int port = ports_pick(seed, &promise);
 *     ... processes listen there, and on the port above it ...
 *     close(promise);
 *
 * A port that is free now is nobody's yet: between the look and the moment when
 * a worker listens there are seconds, in which another epoch of this host may
 * look too. So the port is promised as long as the descriptor is open; the
 * kernel takes the promise back with the process.
 */
#ifndef ENGINE_PORTS_H
#define ENGINE_PORTS_H
#include <stdint.h>

/* Other seeds, other ports: the same one is tried first for the same seed.
 * `*promise` is -1 when none could be made; the port is good all the same. */
int ports_pick(uint64_t seed, int *promise);

#endif
