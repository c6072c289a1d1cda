/* jobtext.h - a job file made of flags.
 *
 * `firn submit --gpus 1..8 -- python train.py` sends the daemon the same YAML
 * that a file would hold. Every text of the user's is quoted, so that nothing
 * in it can become a key, a list or a comment.
 */
#ifndef CLI_JOBTEXT_H
#define CLI_JOBTEXT_H
#include "cli/flags.h"
#include <firn/bytes.h>
#include <stdbool.h>

/* NULL, empty, 0 and below 0: not given. */
struct job_flags {
    const char *name, *queue, *app, *workdir;
    long priority; /* -1: not given */
    const char *gpus;
    struct words types;
    bool may_share, is_alone;
    struct words env; /* "K=V", or "K" for what it is here */
    const char *consistency;
    bool is_elastic;
    int threads, batch;
    const char *freeze, *freeze_max;
    const char *ckpt_dir;
    double grace_s, ckpt_every_s;
    int retries;
    double duration_s, memory_gib;
    long epochs, iterations;
    bool may_restart; /* from scratch */
    const char *deadline;
};
/* Their lines of a table of flags, whose state, a struct args, has them as
 * `at`. */
#define JOB_AT(at, field) offsetof(struct args, at.field)
#define JOB_FLAGS(at)                                                            \
    {"name",    'n',                                                             \
     "NAME",    "what the job is called (made up)",                              \
     flag_text, JOB_AT(at, name)},                                               \
        {"gpus",          'g', "N|MIN..MAX", "how many GPUs (1)", flag_text,     \
         JOB_AT(at, gpus)},                                                      \
        {"gpu",      0,                                                          \
         "A,B,...",  "which types will do (any)",                                \
         flag_words, JOB_AT(at, types)},                                         \
        {"share",  0,                                                            \
         NULL,     "may share GPUs with another job",                            \
         flag_yes, JOB_AT(at, may_share)},                                       \
        {"alone", 0, NULL, "never shares GPUs", flag_yes, JOB_AT(at, is_alone)}, \
        {"env",     'e',                                                         \
         "K=V",     "environment; K alone: as it is here; may be repeated",      \
         flag_word, JOB_AT(at, env)},                                            \
        {"workdir",          'w', "DIR", "where it runs (here)", flag_text,      \
         JOB_AT(at, workdir)},                                                   \
        {"priority", 'p',                                                        \
         "0..100",   "higher goes first (0)",                                    \
         flag_whole, JOB_AT(at, priority)},                                      \
        {"queue",          'q', "NAME", "the queue it goes to", flag_text,       \
         JOB_AT(at, queue)},                                                     \
        {"app",     0,                                                           \
         "NAME",    "the application, whose profile predicts it",                \
         flag_text, JOB_AT(at, app)},                                            \
        {"elastic", 0,                                                           \
         NULL,      "may be resized: it checkpoints when asked",                 \
         flag_yes,  JOB_AT(at, is_elastic)},                                     \
        {"consistency", 0,                                                       \
         "D0|D1|D2",    "how equal its results must be (D1)",                    \
         flag_text,     JOB_AT(at, consistency)},                                \
        {"threads", 0, "N", "elastic threads", flag_count, JOB_AT(at, threads)}, \
        {"batch", 0, "N", "its batch", flag_count, JOB_AT(at, batch)},           \
        {"freeze",  0,                                                           \
         "RULE",    "freezes layers: penalty, freezeout or off",                 \
         flag_text, JOB_AT(at, freeze)},                                         \
        {"freeze-max", 0,                                                        \
         "SHARE",      "at most so much of them (90%)",                          \
         flag_text,    JOB_AT(at, freeze_max)},                                  \
        {"checkpoint-dir",                                                       \
         0,                                                                      \
         "DIR",                                                                  \
         "where its checkpoints go (its own folder)",                            \
         flag_text,                                                              \
         JOB_AT(at, ckpt_dir)},                                                  \
        {"grace",       0,                                                       \
         "TIME",        "what it may take to checkpoint and end",                \
         flag_duration, JOB_AT(at, grace_s)},                                    \
        {"interval",    0,                                                       \
         "TIME",        "from checkpoint to checkpoint",                         \
         flag_duration, JOB_AT(at, ckpt_every_s)},                               \
        {"epochs",          0, "N", "it trains for so many", flag_whole,         \
         JOB_AT(at, epochs)},                                                    \
        {"iterations",          0, "N", "it trains for so many", flag_whole,     \
         JOB_AT(at, iterations)},                                                \
        {"retry",    0,                                                          \
         "N",        "starts again, at most so often, after a failure",          \
         flag_count, JOB_AT(at, retries)},                                       \
        {"duration",    0,                                                       \
         "TIME",        "about how long it will run",                            \
         flag_duration, JOB_AT(at, duration_s)},                                 \
        {"memory",      0,                                                       \
         "GIB",         "what it needs of each GPU",                             \
         flag_positive, JOB_AT(at, memory_gib)},                                 \
        {"restart", 0,                                                           \
         NULL,      "may be stopped and start from scratch",                     \
         flag_yes,  JOB_AT(at, may_restart)},                                    \
    {                                                                            \
        "deadline", 0, "DATE", "when it must be done: 2026-11-20T18:00Z",        \
            flag_text, JOB_AT(at, deadline)                                      \
    }

void job_flags_release(struct job_flags *flags);
/* Has any of them been given? */
bool job_flags_any(const struct job_flags *flags);

/* Appends the YAML. `here` is the working directory: the job's unless a flag
 * names one, and what relative paths are relative to.
 * FIRN_EINVAL for a text that is not UTF-8 or has control characters. */
enum firn_status job_text(struct firn_buf *out, const struct job_flags *flags,
                          char **argv, const char *here,
                          struct firn_error *err);

#endif
