/* modelclient.h - a client of a real firnd that knows what each answer may be.
 *
 * Each function sends one request and compares the answer with the model of the
 * jobs (lib/jobmodel.h), of the nodes and of the policy; a difference fails the
 * test. `fate` says whether firnd is killed with the request under way, or just
 * after the answer; without an answer the model keeps both possibilities.
 */
#ifndef LIB_MODELCLIENT_H
#define LIB_MODELCLIENT_H
#include "base/rng.h"
#include "lib/caller.h"
#include "lib/firndlife.h"
#include "lib/httpgarbage.h"
#include "lib/jobmodel.h"
#include <stdint.h>

enum { MODEL_JOBS = 60000, MODEL_NODES = 4 };

/* What becomes of firnd with a request. */
enum fate { LIVES, KILLED_UNDER_WAY, KILLED_AFTER };

struct modelclient {
    struct firndlife life;
    char sleep_s[32];
    struct rng rng;
    struct caller c;
    bool is_open, is_good;
    enum fate fate;
    struct jobmodel jobs[MODEL_JOBS];
    int n, of_id[2 * MODEL_JOBS]; /* index + 1 */
    int highest_id;
    enum jobmodel_tri drained[MODEL_NODES];
    const char *policy[2]; /* possible ones */
    long long last_event;
    struct garbage garbage;
    int nrequests, nkills, nterms, nhups, ngarbage, nstrange;
};
extern struct modelclient model;

uint64_t model_below(uint64_t n);
void model_pause_s(double seconds);
struct caller model_dial(void);
void model_hang_up(void);
void model_end_life(int signal_number);

/* A job as an answer has it, compared. */
void model_see(struct jobmodel *job, const struct jobmodel_seen *seen);

/* The status; 0: no answer. A submit that was sent before is the same job. */
int model_send_submit(struct jobmodel *job);
void model_submit_new(void);
void model_submit_again(void);

/* True: 200, or no answer; false: 409, for the job is over. Then finish. */
bool model_change(struct jobmodel *job, const char *method, const char *rest,
                  const char *body, struct reply *r);
void model_finish_change(struct jobmodel *job, struct reply *r);
void model_hold(void);
void model_cancel(void);
void model_patch(void);
void model_drain(void);
void model_set_policy(void);

void model_look_at_job(void);
void model_look_at_nodes(void);
void model_look_at_policy(void);
void model_look_at_events(void);
void model_look_at_others(void);
/* The list of all jobs: each acknowledged one is there once, and no other. */
void model_look_at_all(void);

#endif
