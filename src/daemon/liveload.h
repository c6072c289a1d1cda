/* liveload.h - how GPUs are used by jobs that had them alone, as the engine saw
 * it (firn/engine.h), by application and type of GPU.
 */
#ifndef DAEMON_LIVELOAD_H
#define DAEMON_LIVELOAD_H
#include <firn/forecast.h>

struct liveload;

/* For so many types of GPUs. */
struct liveload *liveload_new(int ntypes);
void liveload_free(struct liveload *load);

/* A GPU of a job of the application was used so; "" is no application. */
void liveload_saw(struct liveload *load, const char *app, firn_type_id type,
                  const struct firn_load *seen);
/* Of one not seen there: NaN. */
struct firn_load liveload_of(const struct liveload *load, const char *app,
                             firn_type_id type);

#endif
