/* usagecsv.h - GPU-hours of each user and project of a simulation, as CSV. */
#ifndef SIM_USAGECSV_H
#define SIM_USAGECSV_H
#include "core/accounts.h"
#include <firn/sim.h>

/* Writes options->usage_path; nothing without it or without accounts. */
enum firn_status usagecsv_write(const struct firn_sim_options *options,
                                struct accounts *accounts, double now_s,
                                struct firn_error *err);

#endif
