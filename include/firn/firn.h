/* firn.h - all public headers, for programs that use libfirn.
 *
 * Nothing in src/ includes this file.
 */
#ifndef FIRN_FIRN_H
#define FIRN_FIRN_H
#include <firn/alloc.h>
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <firn/engine.h>
#include <firn/event.h>
#include <firn/job.h>
#include <firn/option.h>
#include <firn/plan.h>
#include <firn/policy.h>
#include <firn/sim.h>
#include <firn/status.h>
#include <firn/trace.h>
#include <firn/version.h>
#include <firn/view.h>
#endif
