/* test_slurm_inbox.c - jobs of a closed partition, with Slurm's commands played
 * by small scripts: the questions, the reports, the commands.
 */
#include "engine/slurmticket.h"
#include "engine/slurmwork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "lib/folder.h"
#include <cmocka.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE(id, where, state, sent, asks)                         \
    id "@0@N/A@" state "@" where "@" sent "@10:00@" asks "@N/A@N/" \
       "A@None@N/A@N/A@ann@net\n"
#define TWO       "1@1@N/A@gres:gpu:2"
#define WAITS(id) LINE(id, "inbox", "PENDING", "1700000000", TWO)

static struct slurm slurm;
static const char *launched; /* the key of every job */

/* --- a Slurm of three scripts --------------------------------------------- */

static void put(const char *name, const char *text, mode_t mode)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder_path(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

/* What is in the file, which is emptied. */
static const char *take(const char *name)
{
    static char text[4096];
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder_path(), name);
    FILE *file = fopen(path, "r");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file != NULL)
        fclose(file);
    unlink(path);
    return text;
}

static bool launch(void *arg, firn_job_id id, struct firn_launch *out)
{
    (void)arg;
    (void)id;
    *out = (struct firn_launch){.inbox = launched};
    return true;
}

static int start(void **state)
{
    static const char squeue[] =
        "#!/bin/sh\ncd \"${0%/*}\"\n"
        "for format; do :; done\n"
        "mark=${format#JobArrayID:|}\nmark=${mark%%|*}\n"
        "echo \"$SLURM_TIME_FORMAT $*\" | sed 's/ -O .*//' >>asked\n"
        "case \" $* \" in *' -p '*) f=list ;; *) f=guests ;; esac\n"
        "sed \"s/@/|$mark|/g; s/\\$/|$mark;/\" $f\n";
    static const char other[] = "#!/bin/sh\ncd \"${0%/*}\"\n"
                                "echo \"${0##*/} $*\" >>did\n";
    struct firn_error err = {0};
    if (folder_make(state) != 0)
        return 1;
    put("squeue", squeue, 0755);
    put("scontrol", other, 0755);
    put("scancel", other, 0755);
    put("list", "", 0644);
    put("guests", "", 0644);
    slurm = (struct slurm){.poll_s = 0.005,
                           .inbox_partition = "inbox",
                           .partition = "main",
                           .host.launch = launch};
    snprintf(slurm.path, sizeof slurm.path, "%s", folder_path());
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};
        struct slurm_host host = {
            .name = names[i], .type = i < 2 ? "a100" : "v100", .ngpus = 4};
        vec_add(&slurm.hosts, host);
        vec_add(&slurm.names, names[i]);
    }
    launched = "";
    return commands_open(&slurm.commands, 4, &err) != FIRN_OK ||
           slurm_inbox_open(&slurm, &err) != FIRN_OK;
}

static int stop(void **state)
{
    static const char *const names[] = {"squeue", "scontrol", "scancel", "list",
                                        "guests", "asked",    "did"};
    slurm_inbox_close(&slurm);
    commands_close(slurm.commands);
    for (size_t i = 0; i < slurm.roster.jobs.n; i++)
        mem_free(slurm.roster.jobs.at[i]);
    vec_release(&slurm.roster.jobs);
    vec_release(&slurm.hosts);
    vec_release(&slurm.names);
    vec_release(&slurm.roster.events);
    buf_release(&slurm.trouble);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        take(names[i]);
    return folder_remove(state);
}

/* Takes in what was answered; nlists, nguests: how many of each. */
static void hear(int *nlists, int *nguests)
{
    struct command_done done;
    struct pollfd fd = {.fd = commands_fd(slurm.commands), .events = POLLIN};
    poll(&fd, 1, 5);
    while (commands_next(slurm.commands, &done)) {
        int tag = done.tag;
        slurm_inbox_answer(&slurm, &done);
        *nlists += tag == SLURM_CMD_INBOX;
        *nguests += tag == SLURM_CMD_INBOX + 1;
    }
}

/* Until both questions have been answered so often, if both are asked, and
 * what followed from that was done. Nothing runs then: the next answer is of
 * what the files are by then. */
static void turn(int times)
{
    double until_s = clock_elapsed_s() + 120;
    int nlists = 0, nguests = slurm.roster.jobs.n > 0 ? 0 : times;
    while ((nlists < times || nguests < times) && clock_elapsed_s() < until_s) {
        slurm_inbox_poll(&slurm);
        hear(&nlists, &nguests);
    }
    assert_true(nlists >= times && nguests >= times);
    while (commands_count(slurm.commands, -1) > 0 &&
           clock_elapsed_s() < until_s)
        hear(&nlists, &nguests);
    assert_int_equal(commands_count(slurm.commands, -1), 0);
}

/* This was done, once; or again, after a while in which it did not help. */
static void did(const char *line)
{
    const char *text = take("did");
    size_t n = strlen(line);
    assert_int_equal(strncmp(text, line, n), 0);
    for (; *text != '\0'; text += n)
        if (strncmp(text, line, n) != 0)
            fail_msg("'%s', not '%s'", text, line);
}

/* "+17-... 2 a100; -18-...; whole" of what is owed, which is given out. */
static const char *reports(void)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < slurm.roster.events.n; i++) {
        if (slurm.roster.events.at[i].kind == FIRN_EVENT_BARS)
            continue;
        const struct firn_inbox *inbox = slurm.roster.events.at[i].inbox;
        assert_int_equal(slurm.roster.events.at[i].kind, FIRN_EVENT_INBOX);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                              i > 0 ? "; " : "");
        if (inbox->key[0] == '\0')
            n += (size_t)snprintf(text + n, sizeof text - n, "whole");
        else if (inbox->is_gone)
            n += (size_t)snprintf(text + n, sizeof text - n, "-%s", inbox->key);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "+%s %d %s %s",
                                  inbox->key, inbox->gpus, inbox->types,
                                  inbox->user);
    }
    slurm.roster.events.n = slurm.roster.nreported = 0;
    return text;
}

/* A job of the inbox that the engine has begun. */
static struct slurmjob *begin(const char *key, firn_node_id node)
{
    static struct firn_part part;
    struct slurmjob *job = mem_new(1, sizeof *job);
    part = (struct firn_part){node, 0, 3};
    *job = (struct slurmjob){.base = {.id = 7, .attempt = 1}};
    job->base.held = (struct firn_alloc){
        .parts = &part, .nparts = 1, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    snprintf(job->inbox, sizeof job->inbox, "%s", key);
    vec_add(&slurm.roster.jobs, &job->base);
    slurm_inbox_start(&slurm, job);
    return job;
}

/* --- cases ---------------------------------------------------------------- */

static void an_inbox_job_and_its_end_are_reported_once(void **state)
{
    (void)state;
    put("list", WAITS("17") WAITS("18_2"), 0644);
    turn(1);
    assert_string_equal(reports(), "+17-1700000000 2  ann; "
                                   "+18.2-1700000000 2  ann; whole");
    assert_string_equal(take("asked"), "%s -h -a -r -t PD -p inbox\n");
    turn(2);
    assert_string_equal(reports(), "");
    put("list", WAITS("18_2"), 0644);
    turn(2);
    assert_string_equal(reports(), "-17-1700000000");
    put("list", WAITS("17") WAITS("18_2"), 0644); /* it is back */
    turn(2);
    assert_string_equal(reports(), "+17-1700000000 2  ann");
    assert_string_equal(take("did"), "");
}

static void an_inbox_job_of_an_impossible_shape_is_left_alone(void **state)
{
    (void)state;
    put("list",
        LINE("1", "inbox", "PENDING", "5", "1@1@N/A@gres:gpu:x9:1")
            LINE("2", "inbox", "PENDING", "5", "2@1@N/A@gres:gpu:2")
                LINE("3", "inbox", "PENDING", "5", "1@1@N/A@gres:gpu:5")
                    LINE("4", "inbox", "PENDING", "5", "1@1@N/A@N/A")
                        LINE("5", "inbox", "PENDING", "5", "2@1@N/A@gres:gpu:4")
                            LINE("6", "inbox", "PENDING", "5",
                                 "1@1@N/A@gres:gpu:v100:4"),
        0644);
    turn(2);
    assert_string_equal(reports(), "+5-5 8  ann; +6-5 4 v100 ann; whole");
    put("list",
        LINE("1+0", "inbox", "PENDING", "5", TWO)
            LINE("6", "inbox", "RUNNING", "5", TWO),
        0644);
    turn(1);
    assert_string_equal(reports(), "-5-5; -6-5");
}

static void a_release_is_repeated_until_slurm_has_moved_the_job(void **state)
{
    (void)state;
    put("list", WAITS("17"), 0644);
    put("guests", WAITS("17"), 0644);
    turn(1);
    reports();
    struct slurmjob *job = begin("17-1700000000", 1);
    turn(4);
    did("scontrol update JobId=17 Partition=main ReqNodeList=b NumNodes=1-1\n");
    assert_int_equal(job->state, SLURM_PENDING);
    job->cancel_s = 0; /* it did not help: again */
    turn(4);
    assert_non_null(strstr(take("did"), "scontrol update JobId=17"));
    put("list", "", 0644);
    put("guests", LINE("17", "main", "RUNNING", "1700000000", TWO), 0644);
    turn(4);
    assert_string_equal(reports(), ""); /* a released job is not gone */
    assert_int_equal(job->state, SLURM_RUNNING);
    job->cancel_s = 0;
    turn(2);
    assert_string_equal(take("did"), "");
    put("guests", /* requeued: another moment, the same job */
        "17@1@N/A@PENDING@main@1700000099@10:00@" TWO
        "@N/A@N/A@None@N/A@N/A@ann@net\n",
        0644);
    turn(6);
    assert_int_equal(job->state, SLURM_PENDING);
    put("guests", LINE("17", "main", "RUNNING", "1700000000", TWO), 0644);
    turn(4);
    put("guests", "", 0644); /* forgotten, some minutes after its end */
    turn(6);
    assert_int_equal(job->state, SLURM_COMPLETED);
}

static void a_constraint_and_an_account_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *features;
        enum slurm_fit fit;
    } fits[] = {
        {"", "", SLURM_FIT_YES},           {"ib", "a100,ib", SLURM_FIT_YES},
        {"ib", "a100,ib2", SLURM_FIT_NO},  {"a&b", "b,a", SLURM_FIT_YES},
        {"a&b", "a", SLURM_FIT_NO},        {"a|b", "b", SLURM_FIT_YES},
        {"a|b", "c", SLURM_FIT_NO},        {"a,b", "a,b,c", SLURM_FIT_YES},
        {"a&b|c", "c", SLURM_FIT_UNKNOWN}, {"[a|b]", "a", SLURM_FIT_UNKNOWN},
        {"a*2", "a", SLURM_FIT_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        assert_int_equal(slurm_features_fit(fits[i].asked, fits[i].features),
                         fits[i].fit);
    slurm.limit_s = 0;
    slurm_limits_read(&slurm, "PartitionName=main AllowGroups=ALL "
                              "AllowAccounts=ml,bio AllowQos=ALL "
                              "DefaultTime=00:10:00 MaxTime=1-00:00:00 x=y");
    assert_true(slurm_limits_allow(&slurm, "ml"));
    assert_true(slurm_limits_allow(&slurm, "BIO"));
    assert_true(slurm_limits_allow(&slurm, "(null)"));
    assert_false(slurm_limits_allow(&slurm, "m"));
    assert_true(slurm.limit_s == 86400);
    slurm_limits_read(&slurm, "PartitionName=main AllowAccounts=ALL "
                              "DenyAccounts=ml DefaultTime=01:00:00 "
                              "MaxTime=UNLIMITED ");
    assert_false(slurm_limits_allow(&slurm, "ml"));
    assert_true(slurm_limits_allow(&slurm, "bio"));
    assert_true(slurm.asks_unlimited);
}

/* One that no node fulfils, or of an account that the partition refuses. */
static void an_inbox_job_that_the_partition_refuses_is_left_alone(void **state)
{
    (void)state;
    slurm.hosts.at[1].features = "ib,a100";
    snprintf(slurm.allow_accounts, sizeof slurm.allow_accounts, "ml");
    put("list",
        "1@0@N/A@PENDING@inbox@5@10:00@" TWO "@N/A@N/A@None@ib@ml@ann@net\n"
        "2@0@N/A@PENDING@inbox@5@10:00@" TWO "@N/A@N/A@None@ib@bio@ann@net\n"
        "3@0@N/A@PENDING@inbox@5@10:00@" TWO "@N/A@N/A@None@xx@ml@ann@net\n",
        0644);
    turn(4);
    assert_non_null(strstr(reports(), "1-5"));
    launched = "1-5";
    const uint64_t *barred = slurm_inbox_barred(&slurm, 0);
    assert_non_null(barred);
    assert_int_equal(barred[0], 5); /* all but the second node */
    launched = "2-5";
    assert_true(slurm_inbox_barred(&slurm, 0) == NULL);
}

static void a_reused_inbox_job_number_is_another_job(void **state)
{
    (void)state;
    put("guests", LINE("17", "inbox", "PENDING", "1800000000", TWO), 0644);
    struct slurmjob *job = begin("17-1700000000", 1);
    slurm_inbox_cancel(&slurm, job);
    turn(6);
    assert_int_equal(job->state, SLURM_CANCELLED);
    assert_string_equal(take("did"), "");
}

static void a_cancelled_inbox_job_is_cancelled_when_it_is_listed(void **state)
{
    (void)state;
    launched = "17-1700000000";
    slurm_inbox_end(&slurm, 7); /* before anything was heard */
    turn(1);
    assert_string_equal(take("did"), "");
    assert_string_equal(reports(), "-17-1700000000; whole");
    put("list", WAITS("17"), 0644);
    turn(1);
    reports();
    slurm_inbox_end(&slurm, 7);
    turn(2);
    did("scancel --quiet 17\n");
    put("list", "", 0644);
    turn(2);
    assert_string_equal(reports(), "-17-1700000000");
}

static void an_inbox_job_needs_its_number_of_nodes(void **state)
{
    (void)state;
    struct firn_part parts[] = {{0, 0, 1}, {1, 0, 1}};
    struct firn_alloc alloc = {
        .parts = parts, .nparts = 2, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    struct firn_error err = {0};
    assert_int_equal(slurm_inbox_check(&slurm, 7, &alloc, &err), FIRN_OK);
    launched = "17-1700000000";
    assert_int_equal(slurm_inbox_check(&slurm, 7, &alloc, &err), FIRN_EREFUSED);
    assert_non_null(strstr(err.text, "has not listed the job"));
    put("list", WAITS("17"), 0644);
    turn(1);
    reports();
    assert_int_equal(slurm_inbox_check(&slurm, 7, &alloc, &err), FIRN_EREFUSED);
    assert_non_null(strstr(err.text, "on exactly 1 node"));
    alloc.nparts = 1;
    assert_int_equal(slurm_inbox_check(&slurm, 7, &alloc, &err), FIRN_OK);
}

static void an_answer_that_cannot_be_read_changes_nothing(void **state)
{
    (void)state;
    put("list", WAITS("17"), 0644);
    turn(1);
    reports();
    put("list", "something else\n", 0644);
    turn(2);
    put("squeue",
        "#!/bin/sh\necho 'Invalid partition specified: x' >&2\n"
        "exit 1\n",
        0755);
    turn(1);
    assert_string_equal(reports(), "");
    assert_true(slurm.away_s == 0); /* it answers */
    put("squeue", "#!/bin/sh\necho 'Unable to contact' >&2\nexit 1\n", 0755);
    turn(1);
    assert_true(slurm.away_s > 0);
    assert_string_equal(reports(), "");
}

static void the_inbox_is_not_the_jobs_partition(void **state)
{
    (void)state;
    static const char *const wrong[] = {"main", "in box", "-x", "a,b"};
    struct firn_error err = {0};
    slurm_inbox_close(&slurm);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(slurm.inbox_partition, sizeof slurm.inbox_partition, "%s",
                 wrong[i]);
        assert_int_equal(slurm_inbox_open(&slurm, &err), FIRN_EINVAL);
    }
    snprintf(slurm.inbox_partition, sizeof slurm.inbox_partition, "off");
    assert_int_equal(slurm_inbox_open(&slurm, &err), FIRN_OK);
    assert_null(slurm.inbox);
    assert_true(isinf(slurm_inbox_due_s(&slurm)));
    slurm_inbox_poll(&slurm);
    assert_int_equal(commands_count(slurm.commands, -1), 0);
}

static void an_inbox_job_that_slurm_refuses_frees_its_gpus(void **state)
{
    (void)state;
    struct slurmjob *job = begin("17-1700000000", 1);
    struct command_done done = {.tag = SLURM_CMD_INBOX + 2,
                                .about = 7,
                                .more = 1,
                                .has_run = true,
                                .status = 1};
    static const char away[] = "Unable to contact slurm controller\n";
    static const char no[] = "Invalid user id for job 17\n";
    static const char *const late[] = {
        "Job is no longer pending execution for job 17\n",
        "Job/step already completing or completed for job 17\n",
        "Job has already finished for job 17\n",
        "Job has already started for job 17\n",
        "Job is not pending nor running for job 17\n",
        "Job can not be altered now, try again later for job 17\n",
        "Invalid job id specified for job 17\n"};
    done.err = (struct firn_bytes){away, sizeof away - 1};
    slurm_inbox_answer(&slurm, &done);
    assert_false(job->is_seen);
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        /* the second of two commands */
        done.err = (struct firn_bytes){late[i], strlen(late[i])};
        slurm_inbox_answer(&slurm, &done);
        assert_false(job->is_seen);
    }
    done.err = (struct firn_bytes){no, sizeof no - 1};
    done.more = 2; /* another start's */
    slurm_inbox_answer(&slurm, &done);
    assert_false(job->is_seen);
    done.more = 1;
    slurm_inbox_answer(&slurm, &done);
    assert_true(job->is_seen && job->state == SLURM_LOST);
    assert_string_equal(job->refusal, "Invalid user id for job 17");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(an_inbox_job_and_its_end_are_reported_once),
        CASE(an_inbox_job_of_an_impossible_shape_is_left_alone),
        CASE(a_release_is_repeated_until_slurm_has_moved_the_job),
        CASE(a_constraint_and_an_account_are_read),
        CASE(an_inbox_job_that_the_partition_refuses_is_left_alone),
        CASE(a_reused_inbox_job_number_is_another_job),
        CASE(a_cancelled_inbox_job_is_cancelled_when_it_is_listed),
        CASE(an_inbox_job_needs_its_number_of_nodes),
        CASE(an_answer_that_cannot_be_read_changes_nothing),
        CASE(the_inbox_is_not_the_jobs_partition),
        CASE(an_inbox_job_that_slurm_refuses_frees_its_gpus),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
