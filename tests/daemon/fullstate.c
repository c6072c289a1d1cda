/* fullstate.c - many jobs written through the book; see fullstate.h.
 */
#include "fullstate.h"
#include "base/mem.h"
#include <stdio.h>

enum firn_status fullstate_submit(struct book *book, int i, double at_s,
                                  struct live_job **out, struct firn_error *err)
{
    static const char *const apps[] = {
        "resnet50", "bert", "vgg19",       "",         "gnmt",
        "yolov3",   "ncf",  "deepspeech2", "imagenet", "cifar10"};
    char name[32];
    snprintf(name, sizeof name, "job-%d-%d", i % 97, i);
    struct live_ask ask = {.name = mem_strdup(name),
                           .queue = mem_strdup("research"),
                           .user = mem_strdup(i % 3 == 0 ? "ann" : "bob"),
                           .app = mem_strdup(apps[i % 10]),
                           .workdir = mem_strdup("/tmp"),
                           .argv = mem_new(3, sizeof(char *)),
                           .gpus_min = 1,
                           .gpus_max = i % 3 == 0 ? 1 : 4,
                           .is_elastic = i % 3 != 0,
                           .can_checkpoint = true,
                           .may_share = i % 4 == 0,
                           .mem_gib = i % 5 == 0 ? 4 : 0,
                           .grace_s = 1,
                           .duration_s = i % 2 == 0 ? 0 : 600 + i % 7000};
    bool is_new = false;
    ask.argv[0] = mem_strdup("/bin/sleep");
    ask.argv[1] = mem_strdup("100000");
    enum firn_status status =
        book_submit(book, &ask, "run: [/bin/sleep, \"100000\"]\n", "", at_s,
                    out, &is_new, err);
    live_ask_release(&ask);
    return status;
}

/* One attempt, from start to end, with a report. */
static enum firn_status attempt(struct book *book, struct live_job *job,
                                double at_s, struct firn_error *err)
{
    struct firn_trainer_report report = firn_trainer_report_unknown();
    int64_t number = 0;
    FIRN_TRY(book_held(book, job, "n0[0]", err));
    FIRN_TRY(book_open_attempt(book, job, &number, err));
    FIRN_TRY(book_state(book, job, LIVE_RUNNING, LIVE_BECAUSE_POLICY, at_s, "",
                        err));
    report.step = 1000 * (uint64_t)number;
    report.progress = 0.1 * (double)number;
    FIRN_TRY(book_report(book, job, number, &report, at_s + 60, err));
    struct store_attempt last = {.job = job->id,
                                 .number = number,
                                 .started_s = at_s,
                                 .ended_s = at_s + 100,
                                 .end = FIRN_END_CHECKPOINT,
                                 .held = "n0[0]"};
    FIRN_TRY(book_attempt_ended(book, job, &last, err));
    FIRN_TRY(book_held(book, job, "-", err));
    return book_state(book, job, LIVE_PENDING, LIVE_BECAUSE_POLICY, at_s, "",
                      err);
}

static enum firn_status add(struct book *book, const struct fullstate *what,
                            int i, struct firn_error *err)
{
    bool is_over = i < what->history;
    bool ran = what->ran_every > 0 && i % what->ran_every == 0;
    double at_s = what->oldest_s + i;
    struct live_job *job = NULL;
    FIRN_TRY(fullstate_submit(book, i, at_s, &job, err));
    for (int k = 0; k < (is_over ? 1 : ran ? 3 : 0); k++)
        FIRN_TRY(attempt(book, job, at_s, err));
    return is_over ? book_state(book, job, LIVE_SUCCEEDED, LIVE_BECAUSE_NONE,
                                at_s + 100, "", err)
                   : FIRN_OK;
}

enum firn_status fullstate_fill(const char *folder,
                                const struct fullstate *what,
                                struct firn_error *err)
{
    enum { AT_ONCE = 10000 };
    struct store *store = NULL;
    struct book *book = NULL;
    char said[256];
    FIRN_TRY(store_open(&store, folder, said, sizeof said, err));
    enum firn_status status = book_open(&book, store, err);
    for (int i = 0; i < what->history + what->living && status == FIRN_OK;
         i++) {
        status = add(book, what, i, err);
        if (status == FIRN_OK && i % AT_ONCE == 0)
            status = store_commit(store, err);
    }
    if (status == FIRN_OK)
        status = store_commit(store, err);
    book_close(book);
    store_close(store);
    return status;
}
