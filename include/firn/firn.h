/* firn.h - all public headers, for programs that use libfirn.
 *
 * Nothing in src/ includes this file.
 */
#ifndef FIRN_FIRN_H
#define FIRN_FIRN_H
#include <firn/alloc.h>
#include <firn/api.h>
#include <firn/arch.h>
#include <firn/batchrule.h>
#include <firn/bytes.h>
#include <firn/can.h>
#include <firn/ckpt.h>
#include <firn/cluster.h>
#include <firn/compat.h>
#include <firn/engine.h>
#include <firn/event.h>
#include <firn/feed.h>
#include <firn/fold.h>
#include <firn/forecast.h>
#include <firn/freeze.h>
#include <firn/freezer.h>
#include <firn/goodput.h>
#include <firn/gradstat.h>
#include <firn/group.h>
#include <firn/itertime.h>
#include <firn/job.h>
#include <firn/launch.h>
#include <firn/llm.h>
#include <firn/llmplan.h>
#include <firn/losscurve.h>
#include <firn/mate.h>
#include <firn/memory.h>
#include <firn/message.h>
#include <firn/offer.h>
#include <firn/option.h>
#include <firn/pairtime.h>
#include <firn/parallel.h>
#include <firn/passes.h>
#include <firn/peak.h>
#include <firn/peakplan.h>
#include <firn/plan.h>
#include <firn/policy.h>
#include <firn/profile.h>
#include <firn/progress.h>
#include <firn/report.h>
#include <firn/sharing.h>
#include <firn/sim.h>
#include <firn/status.h>
#include <firn/task.h>
#include <firn/threads.h>
#include <firn/trace.h>
#include <firn/train.h>
#include <firn/transfer.h>
#include <firn/version.h>
#include <firn/view.h>
#include <firn/waste.h>
#endif
