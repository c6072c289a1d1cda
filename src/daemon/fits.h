/* fits.h - can the cluster ever run what a job asks for?
 */
#ifndef DAEMON_FITS_H
#define DAEMON_FITS_H
#include "daemon/livejob.h"
#include <firn/cluster.h>
#include <firn/status.h>

/* FIRN_EREFUSED: with all nodes up and no other job, it could not start; the
 * sentence names what is missing and the nearest thing that there is. */
enum firn_status fits_check(const struct firn_cluster *cluster,
                            const struct live_ask *ask, struct firn_error *err);

#endif
