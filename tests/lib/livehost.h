/* livehost.h - a host for a live engine: jobs as a test declares them.
 *
 * It gives out launches and attempt numbers, keeps the numbers in files so that
 * another process can continue after this one, and waits for events.
 */
#ifndef LIB_LIVEHOST_H
#define LIB_LIVEHOST_H
#include "base/arena.h"
#include <firn/engine.h>
#include <firn/launch.h>

enum { LIVE_JOBS = 8, LIVE_WORDS = 12 };

struct livehost_job {
    const char *argv[LIVE_WORDS]; /* ends with NULL */
    const char *env[LIVE_WORDS];
    char folder[300], log[320];
    double grace_s;
    bool can_checkpoint, is_per_node;
    int threads;
    struct firn_job job; /* what core would know: id and GPUs */
};

struct livehost {
    const struct firn_engine_def *engine;
    void *state;
    struct livehost_job jobs[LIVE_JOBS];
    char mark[20]; /* of all processes of its jobs */
    int nrefused;  /* attempt numbers still to be refused */
    int nkept;     /* commits of numbers */
    int nunkept;   /* commits that fail before one succeeds */
    struct arena text;
    char seen[1 << 14]; /* all events: "STARTING 0.1; DONE 0.1=0; " */
    struct firn_error err;
};

/* An engine with these GPUs, this program being its shepherd. For the Slurm
 * engine there is a fakeslurm_open() before, whose GPUs it has, and `gpus` are
 * the site's options of sbatch; when its commands answered too late to be
 * believed it is opened again. */
void livehost_open(struct livehost *host, const char *engine, const char *gpus);
/* The engine is closed; jobs go on. */
void livehost_close(struct livehost *host);

/* Job `id` runs this program's worker: "obey FILE" and so on, at blanks; a
 * checkpointing job with a minute of grace. */
struct livehost_job *livehost_job(struct livehost *host, int id,
                                  const char *work);

/* The same with a worker of one word and one file. */
struct livehost_job *livehost_work(struct livehost *host, int id,
                                   const char *what, const char *file);

/* A step to these GPUs, "" for STOP, and `settled` behind it. */
void livehost_step(struct livehost *host, int id, const char *gpus);
/* The same without `settled`. */
void livehost_say(struct livehost *host, int id, const char *gpus);

/* Waits for an event of this kind of this job, two minutes at most, and fails
 * the test otherwise; events before it are passed over (and kept in `seen`). */
struct firn_event livehost_await(struct livehost *host,
                                 enum firn_event_kind kind, int id);
/* The same for a phase. */
void livehost_await_phase(struct livehost *host, enum firn_phase phase, int id);
/* Waits until a file of workers has n of them (lib/workers.h), and lets the
 * engine work meanwhile: it may have to launch them still. */
void livehost_await_ready(struct livehost *host, const char *file, size_t n);
/* Takes in what there is, without waiting. */
void livehost_drain(struct livehost *host);
/* The same again and again, for a while. */
void livehost_pass_ms(struct livehost *host, int ms);
/* Is this in `seen`? */
bool livehost_has_seen(const struct livehost *host, const char *text);
enum firn_phase livehost_phase(const struct livehost *host, int id);

/* Asks the engine to take the job over, as of the last number given out. */
enum firn_status livehost_adopt(struct livehost *host, int id,
                                const char *gpus);
/* The last number given out; 0: none. */
int64_t livehost_attempt(const struct livehost *host, int id);

/* A case's beginning and end, for cmocka: a folder, the played Slurm where the
 * engine needs one, and the host; and nothing of it. */
int livehost_set_up(struct livehost *host, const char *engine, const char *gpus,
                    void **state);
int livehost_tear_down(struct livehost *host, void **state);

#endif
