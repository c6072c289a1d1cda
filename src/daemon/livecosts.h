/* livecosts.h - what starts, stops and resizes have cost, by application.
 *
 * Engine and trainers measure; this keeps the means. Policies get them through
 * firn_view_costs(), forecasts count them.
 */
#ifndef DAEMON_LIVECOSTS_H
#define DAEMON_LIVECOSTS_H
#include <firn/bytes.h>
#include <firn/cost.h>
#include <firn/profile.h>

struct livecosts;

enum livecost {
    LIVECOST_START,    /* from the order to the first step of the training */
    LIVECOST_STOP,     /* from the order until the processes are gone */
    LIVECOST_END,      /* from the last step until they are gone */
    LIVECOST_PAUSE,    /* of a resize without a stop */
    LIVECOST_PREPARE,  /* until its new processes were ready */
    LIVECOST_SLOWDOWN, /* step time meanwhile / usual; a ratio */
    LIVECOST_ESTIMATE, /* time from start to end / what the user gave; a ratio,
                        * never that of other applications */
    LIVECOST_CLOCK,    /* time of training by the clock / by the step times that
                        * trainers report, which leave out what is between steps */
    LIVECOST_PREPARED, /* as START, of a job whose processes waited for its GPUs
                        * (its processes' start does not count) */
    LIVECOST_SAVED,    /* seconds of a start that were done before the job had
                        * its GPUs; 0: it was not prepared */
    LIVECOST_WAITS,    /* 1: its trainers wait for their GPUs when they are
                        * started early (firn/ahead.h), 0: they do not; never
                        * that of other applications */
    LIVECOST_FIRST,    /* what the first steps of a training take longer than as
                        * many later ones */
    LIVECOSTS
};

struct livecosts *livecosts_new(void);
void livecosts_free(struct livecosts *costs);

/* Takes in one measurement. A value that is not finite, or below 0, is no
 * measurement. `app` "": of no named application. */
void livecosts_add(struct livecosts *costs, const char *app,
                   enum livecost which, double value);

/* The mean of the application; of all jobs if it was not measured; < 0: nothing
 * was measured. */
double livecosts_mean(const struct livecosts *costs, const char *app,
                      enum livecost which);

/* The same without the mean of all jobs. */
double livecosts_own_mean(const struct livecosts *costs, const char *app,
                          enum livecost which);

/* The mean of all jobs; < 0: nothing was measured. */
double livecosts_all_mean(const struct livecosts *costs, enum livecost which);

/* From the order until its steps take their usual time: START and FIRST; < 0:
 * not known. */
double livecosts_start_s(const struct livecosts *costs, const char *app);

/* What a job of the application needs besides its usual steps: that, and what
 * comes behind its last step. 0: neither was measured. */
double livecosts_around_s(const struct livecosts *costs, const char *app);

/* A job of the application whose user told `told_s` would have taken `took_s`
 * alone from its start to its end (model/told.h). */
void livecosts_ended(struct livecosts *costs, const char *app, double told_s,
                     double took_s);
/* How long one trains of which `told_s` were told. Where start and end take as
 * long as that, or nearly, a tenth of it. */
double livecosts_training_s(const struct livecosts *costs, const char *app,
                            double told_s);

/* Both costs of a job of the application: as measured here, else, of a resize,
 * as `profile` has it (NULL: none). What is not known stays as it is in `out`.
 */
void livecosts_of(const struct livecosts *costs, const char *app,
                  const struct firn_profile *profile, struct firn_costs *out);

/* The applications that were measured, in the order of their first
 * measurement; NULL beyond them. */
const char *livecosts_app(const struct livecosts *costs, size_t i);

/* As text, and back; a line that cannot be read is passed over. */
void livecosts_save(const struct livecosts *costs, struct firn_buf *out);
void livecosts_load(struct livecosts *costs, const char *text);
/* The same for what users told. */
void livecosts_save_told(const struct livecosts *costs, struct firn_buf *out);
void livecosts_load_told(struct livecosts *costs, const char *text);

#endif
