/* slurm_ask.c - starts Slurm's commands, and knows whether Slurm answers.
 *
 * Commands run beside the loop; their ends come back by slurm_poll.c. When
 * commands fail or take too long, the controller is away: everything stays as
 * it is, starts wait, and `trouble` says since when. An engine that was opened
 * without a controller (slurm_kept.c) is away until Slurm has listed the nodes.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "engine/slurmwork.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void slurm_run(struct slurm *slurm, const char *const *argv,
               const struct command *command)
{
    struct command with_path = *command;
    VEC(const char *) words = {0};
    struct firn_buf path = {0};
    if (slurm->path[0] != '\0')
        buf_printf(&path, "%s/", slurm->path);
    buf_puts(&path, argv[0]);
    vec_add(&words, path.at);
    for (size_t i = 1; argv[i] != NULL; i++)
        vec_add(&words, argv[i]);
    vec_add(&words, NULL);
    with_path.argv = words.at;
    commands_start(slurm->commands, &with_path);
    vec_release(&words);
    buf_release(&path);
}

void slurm_came_back(struct slurm *slurm)
{
    if (!(slurm->away_s > 0) || slurm->is_from_file)
        return; /* foreign GPUs must be known first */
    log_info("Slurm answers again");
    slurm->away_s = 0;
    buf_clear(&slurm->trouble);
}

void slurm_went_away(struct slurm *slurm, const char *name, const char *why)
{
    char when[16] = "";
    struct tm parts;
    bool is_new = !(slurm->away_s > 0);
    if (is_new)
        slurm->away_s = slurm_now_s(slurm);
    time_t since = (time_t)slurm->away_s;
    if (localtime_r(&since, &parts) != NULL)
        strftime(when, sizeof when, "%H:%M", &parts);
    buf_clear(&slurm->trouble);
    buf_printf(&slurm->trouble, "slurmctld does not answer (since %s): %s: %s",
               when, name, why);
    if (is_new)
        log_warn("%s", slurm->trouble.at);
}

const char *slurm_failure(const struct command_done *done,
                          char out[SLURM_EXCERPT])
{
    struct firn_bytes text = done->err;
    while (text.n > 0 &&
           (text.at[text.n - 1] == '\n' || text.at[text.n - 1] == ' '))
        text.n--;
    if (done->is_late)
        text = (struct firn_bytes){"it took too long", 16};
    return slurm_excerpt(text, out);
}

bool slurm_is_answer(struct slurm *slurm, const char *name,
                     const struct command_done *done)
{
    char text[SLURM_EXCERPT];
    if (done->has_run && !done->is_late && done->status == 0) {
        slurm_came_back(slurm);
        return true;
    }
    slurm_went_away(slurm, name, slurm_failure(done, text));
    return false;
}

void slurm_poll_soon(struct slurm *slurm)
{
    double soon_s = slurm_now_s(slurm) + 0.1 * slurm->poll_s;
    slurm->queue_due_s = fmin(slurm->queue_due_s, soon_s);
}

bool slurm_is_refusal(const struct command_done *done)
{
    static const char *const unclear[] = {
        "ontact", "imed out", "ommunication", "onnect",
        "Zero",   "message",  "temporarily",  "nexpected"};
    if (done->is_late || done->status == 0 || done->status > 128)
        return false;
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++)
        if (strstr(done->err.at, unclear[i]) != NULL)
            return false;
    return true;
}

static void cancel_as(struct slurm *slurm, const char *user,
                      const struct slurm_tag *tag, const char *const *words)
{
    struct slurm_argv argv = {0};
    struct arena text = {0};
    slurm_users_argv(slurm, words[0], user, tag, &argv, &text);
    for (size_t i = 1; words[i] != NULL; i++)
        vec_add(&argv.at, words[i]);
    vec_add(&argv.at, NULL);
    commands_start(slurm->commands, &(struct command){.argv = argv.at.at,
                                                      .limit_s = slurm_answer_s,
                                                      .tag = SLURM_CMD_CANCEL});
    vec_release(&argv.at);
    arena_release(&text);
}

void slurm_cancel_by(struct slurm *slurm, const char *user,
                     const struct slurm_tag *tag, const char *const *argv)
{
    if (user[0] != '\0')
        cancel_as(slurm, user, tag, argv);
    else
        slurm_run(slurm, argv,
                  &(struct command){.limit_s = slurm_answer_s,
                                    .tag = SLURM_CMD_CANCEL});
}

void slurm_cancel(struct slurm *slurm, const char *user,
                  const struct slurm_tag *tag, int64_t id, bool is_gentle)
{
    char number[32], mark[SLURM_TAG_MAX], name[SLURM_TAG_MAX + 8];
    const char *argv[] = {"scancel", is_gentle ? "--state=PENDING" : "--quiet",
                          name, number, NULL};
    slurm_tag_print(tag, mark);
    snprintf(name, sizeof name, "--name=%s", mark);
    snprintf(number, sizeof number, "%lld", (long long)id);
    slurm_cancel_by(slurm, user, tag, argv);
}
