/* fits.h - can a job ever run as it is submitted?
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
/* FIRN_EREFUSED: its deadline is over. */
enum firn_status fits_deadline(const struct live_ask *ask, double now_s,
                               struct firn_error *err);
/* FIRN_EREFUSED: its working directory is none on this host, with the nearest
 * folder that there is. One that this process may not look at is accepted. */
enum firn_status fits_workdir(const struct live_ask *ask,
                              struct firn_error *err);

#endif
