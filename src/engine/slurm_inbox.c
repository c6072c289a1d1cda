/* slurm_inbox.c - schedules jobs that users gave to a closed Slurm partition.
 *
 * Users go on using sbatch, with --partition=inbox. The partition is DOWN, so
 * Slurm starts nothing there; each pending job of it is reported to the host,
 * which places it. One command starts a job,
 *
 *     scontrol update JobId=17 Partition=main ReqNodeList=a,b NumNodes=2-2
 *
 * and Slurm does the rest. What the job asked for does not change.
 *
 * Two questions are asked in turn: which jobs are pending in the inbox; and how
 * the released jobs ("guests") are. A job is identified by its key, its number
 * and time of submission, because Slurm's controller gives numbers out again
 * after a crash. A released job that Slurm requeued by itself has the same
 * number, another time, and a count of restarts.
 *
 * Invariants:
 * (1) nothing is done to a job whose key was not in the last answer;
 * (2) a job is reported once, and its end once; after the first complete answer
 *     the host gets an event that says so;
 * (3) releasing a job is repeated until Slurm has it out of the inbox;
 * (4) a job that cannot be placed is left alone, and logged once;
 * (5) a job that Slurm does not let go (firnd's user lacks the right) stays in
 *     the inbox as it is, and is tried again every minute;
 * (6) only a job that its user cancelled, or that ran, is cancelled here.
 *
 * Only shapes that an allocation of GPUs can have are placed: all on one node,
 * or whole nodes. firn has no "two GPUs on each of two nodes".
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmticket.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    CMD_LIST = SLURM_CMD_INBOX,
    CMD_GUESTS,
    CMD_UPDATE, /* about: job, more: attempt */
    CMD_END
};

static const double again_s = 2; /* between two tries */

/* A job of the inbox. */
struct guest {
    struct slurm_ticket ticket;
    struct firn_inbox notice; /* as reported to the host */
    char *name, *user;
    bool is_reported;
    bool is_listed;   /* in the last answer */
    bool is_odd;      /* (4) */
    uint64_t *barred; /* nodes that its --constraint excludes; NULL: none */
    bool is_ending;   /* to be cancelled before its start */
    double cancel_s;
};

struct slurm_inbox {
    VEC(struct guest *) at, gone; /* gone: kept while events point to them */
    uint64_t list_mark, guests_mark;
    double list_due_s, guests_due_s, guests_asked_s;
    bool has_listed, has_complained;
};

/* --- opened and closed ---------------------------------------------------- */

static void free_guest(struct guest *guest)
{
    mem_free(guest->name);
    mem_free(guest->user);
    mem_free(guest->barred);
    mem_free(guest);
}

enum firn_status slurm_inbox_open(struct slurm *slurm, struct firn_error *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                  "qrstuvwxyz0123456789._-";
    const char *name = slurm->inbox_partition;
    if (name[0] == '\0' || strcmp(name, "off") == 0)
        return FIRN_OK;
    if (name[0] == '-' || strspn(name, letters) != strlen(name))
        return firn_fail(err, FIRN_EINVAL,
                         "slurm.inbox=%.100s is not a partition's name", name);
    if (strcmp(name, slurm->partition) == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "slurm.inbox and slurm.partition are both '%.100s': "
                         "they must differ",
                         name);
    slurm->inbox = mem_new(1, sizeof *slurm->inbox);
    slurm->inbox->guests_due_s = INFINITY;
    if (!slurm->is_from_file)
        slurm_rights_check(slurm);
    return FIRN_OK;
}

void slurm_inbox_close(struct slurm *slurm)
{
    struct slurm_inbox *in = slurm->inbox;
    if (in == NULL)
        return;
    for (size_t i = 0; i < in->at.n; i++)
        free_guest(in->at.at[i]);
    for (size_t i = 0; i < in->gone.n; i++)
        free_guest(in->gone.at[i]);
    vec_release(&in->at);
    vec_release(&in->gone);
    mem_free(in);
    slurm->inbox = NULL;
}

/* --- questions ------------------------------------------------------------ */

static bool draw_mark(uint64_t *mark)
{
    return getrandom(mark, sizeof *mark, 0) == (ssize_t)sizeof *mark;
}

static void ask(struct slurm *slurm, const char *option, const char *what,
                int tag, uint64_t mark)
{
    static const char *const env[] = {SLURM_TICKET_ENV, NULL};
    struct firn_buf format = {0};
    slurm_ticket_format(mark, &format);
    const char *argv[] = {
        "squeue", "-h", "-a", "-r",      "-t", tag == CMD_LIST ? "PD" : "all",
        option,   what, "-O", format.at, NULL};
    slurm_run(
        slurm, argv,
        &(struct command){.env = env, .limit_s = slurm_answer_s, .tag = tag});
    buf_release(&format);
}

/* The released jobs, "17,18"; false: none. A single job is listed twice: for a
 * single unknown job squeue fails. */
static bool list_guests(const struct slurm *slurm, struct firn_buf *out)
{
    char id[SLURM_TICKET_ID];
    int n = 0;
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        const struct slurmjob *job = slurm_at(slurm, i);
        if (job->inbox[0] == '\0' || job->base.held.nparts == 0 ||
            !slurm_key_id(job->inbox, id))
            continue;
        buf_printf(out, "%s%s", n++ > 0 ? "," : "", id);
    }
    if (n == 1)
        buf_printf(out, ",%s", id);
    return n > 0;
}

static bool is_asked(const struct slurm *slurm, int tag)
{
    return commands_count(slurm->commands, tag) > 0;
}

void slurm_inbox_poll(struct slurm *slurm)
{
    struct slurm_inbox *in = slurm->inbox;
    double now_s = slurm_now_s(slurm);
    struct firn_buf ids = {0};
    if (in == NULL)
        return;
    if (now_s >= in->list_due_s && !is_asked(slurm, CMD_LIST) &&
        draw_mark(&in->list_mark)) {
        in->list_due_s = INFINITY;
        ask(slurm, "-p", slurm->inbox_partition, CMD_LIST, in->list_mark);
    }
    if (now_s >= in->guests_due_s && !is_asked(slurm, CMD_GUESTS) &&
        draw_mark(&in->guests_mark)) {
        in->guests_due_s = INFINITY;
        in->guests_asked_s = now_s;
        if (list_guests(slurm, &ids))
            ask(slurm, "-j", ids.at, CMD_GUESTS, in->guests_mark);
    }
    buf_release(&ids);
}

double slurm_inbox_due_s(const struct slurm *slurm)
{
    double due_s = INFINITY;
    if (slurm->inbox != NULL && !is_asked(slurm, CMD_LIST))
        due_s = slurm->inbox->list_due_s;
    if (slurm->inbox != NULL && !is_asked(slurm, CMD_GUESTS))
        due_s = fmin(due_s, slurm->inbox->guests_due_s);
    return due_s;
}

/* --- pending jobs --------------------------------------------------------- */

static struct guest *find(const struct slurm_inbox *in, const char *key)
{
    for (size_t i = 0; i < in->at.n; i++)
        if (strcmp(in->at.at[i]->ticket.key, key) == 0)
            return in->at.at[i];
    return NULL;
}

/* Finds the nodes that the job's --constraint excludes. False: it cannot be
 * read, or excludes all. */
static bool read_features(const struct slurm *slurm, struct guest *guest,
                          const struct slurm_ticket *ticket)
{
    size_t n = 0, words = (slurm->hosts.n + 63) / 64;
    mem_free(guest->barred);
    guest->barred = NULL;
    if (ticket->features[0] == '\0')
        return true;
    guest->barred = mem_new(words, sizeof *guest->barred);
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        const struct slurm_host *host = &slurm->hosts.at[i];
        enum slurm_fit fit = slurm_features_fit(
            ticket->features, host->features != NULL ? host->features : "");
        bool is_type =
            ticket->type[0] == '\0' || strcmp(ticket->type, host->type) == 0;
        if (fit == SLURM_FIT_UNKNOWN)
            return false;
        if (fit == SLURM_FIT_YES)
            n += is_type;
        else
            guest->barred[i / 64] |= (uint64_t)1 << i % 64;
    }
    return n > 0;
}

/* Why no allocation has the shape that the job asks for; NULL: one has. */
static const char *shape_problem(const struct slurm *slurm,
                                 const struct slurm_ticket *ticket)
{
    int most = 0, each = ticket->gpus / ticket->nnodes;
    bool is_whole = each * ticket->nnodes == ticket->gpus;
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        const struct slurm_host *host = &slurm->hosts.at[i];
        if (ticket->type[0] != '\0' && strcmp(ticket->type, host->type) != 0)
            continue;
        most = host->ngpus > most ? host->ngpus : most;
        is_whole = is_whole && each == host->ngpus;
    }
    if (most == 0)
        return "it asks for GPUs of a type that no node has";
    if (ticket->nnodes > 1 && !is_whole)
        return "it asks for several nodes, and not for whole ones";
    return ticket->nnodes == 1 && ticket->gpus > most
               ? "it asks for more GPUs than a node has"
               : NULL;
}

static void report(struct slurm *slurm, struct guest *guest)
{
    const struct slurm_ticket *ticket = &guest->ticket;
    guest->is_reported = true;
    guest->notice = (struct firn_inbox){
        .key = guest->ticket.key,
        .name = guest->name,
        .user = guest->user,
        .types = guest->ticket.type,
        .gpus = ticket->gpus,
        .limit_s = ticket->limit_s > 0 ? ticket->limit_s : slurm->limit_s,
        /* whole seconds: rounded up, so that jobs
         * of firn in that second come first */
        .submit_s = ticket->submit_s + 1};
    slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_INBOX,
                                            .inbox = &guest->notice});
    if (guest->barred != NULL) /* the host may know the job already */
        slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_BARS,
                                                .job = FIRN_NO_JOB});
}

static void see(struct slurm *slurm, const struct slurm_ticket *ticket)
{
    struct slurm_inbox *in = slurm->inbox;
    struct guest *guest = find(in, ticket->key);
    if (guest == NULL) {
        guest = mem_new(1, sizeof *guest);
        guest->ticket = *ticket;
        guest->name = mem_strdup(ticket->name);
        guest->user = mem_strdup(ticket->user);
        guest->ticket.features = guest->ticket.account = "";
        vec_add(&in->at, guest);
    }
    guest->is_listed = true;
    if (guest->is_reported || guest->is_odd || !ticket->is_ready)
        return;
    const char *why =
        ticket->why[0] != '\0' ? ticket->why : shape_problem(slurm, ticket);
    if (why == NULL && !slurm_limits_allow(slurm, ticket->account))
        why = "its account may not use the partition (AllowAccounts)";
    if (why == NULL && slurm->limit_s > 0 && ticket->limit_s > slurm->limit_s)
        why = "it asks for more time than the partition allows (--time)";
    if (why == NULL && !read_features(slurm, guest, ticket))
        why = "no node has the features of its --constraint, or firn cannot "
              "read it";
    if (why == NULL) {
        report(slurm, guest);
        return;
    }
    char id[SLURM_EXCERPT];
    struct firn_bytes text = {ticket->id, strlen(ticket->id)};
    guest->is_odd = true; /* (4) */
    log_warn("Slurm's job %s of the inbox is left alone: %s",
             slurm_excerpt(text, id), why);
}

static bool is_released(const struct slurm *slurm, const char *key)
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        if (slurm->roster.jobs.at[i]->held.nparts > 0 &&
            strcmp(slurm_at(slurm, i)->inbox, key) == 0)
            return true;
    return false;
}

/* Reports jobs that are no longer in the answer as gone, unless released. */
static void drop_missing(struct slurm *slurm)
{
    struct slurm_inbox *in = slurm->inbox;
    size_t n = 0;
    for (size_t i = 0; i < in->at.n; i++) {
        struct guest *guest = in->at.at[i];
        if (guest->is_listed) {
            in->at.at[n++] = guest;
            continue;
        }
        if (guest->is_reported && !is_released(slurm, guest->ticket.key)) {
            guest->notice.is_gone = true;
            slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_INBOX,
                                                    .inbox = &guest->notice});
        }
        vec_add(&in->gone, guest); /* an event may still point to it */
    }
    in->at.n = n;
}

static void cancel_id(struct slurm *slurm, const char *key, double *last_s)
{
    char id[SLURM_TICKET_ID];
    double now_s = slurm_now_s(slurm);
    const char *argv[] = {"scancel", "--quiet", id, NULL};
    if (now_s < *last_s + again_s || !slurm_key_id(key, id))
        return;
    *last_s = now_s;
    slurm_run(slurm, argv,
              &(struct command){.limit_s = slurm_answer_s, .tag = CMD_END});
}

static void take_list(struct slurm *slurm, const struct slurm_tickets *tickets)
{
    static const struct firn_inbox whole = {
        .key = "", .name = "", .user = "", .types = ""};
    struct slurm_inbox *in = slurm->inbox;
    if (!roster_has_events(&slurm->roster)) { /* no event points to them */
        for (size_t i = 0; i < in->gone.n; i++)
            free_guest(in->gone.at[i]);
        in->gone.n = 0;
    }
    for (size_t i = 0; i < in->at.n; i++)
        in->at.at[i]->is_listed = false;
    for (size_t i = 0; i < tickets->at.n; i++)
        if (tickets->at.at[i].is_inside &&
            tickets->at.at[i].state == SLURM_PENDING)
            see(slurm, &tickets->at.at[i]);
    drop_missing(slurm);
    for (size_t i = 0; i < in->at.n; i++)
        if (in->at.at[i]->is_ending)
            cancel_id(slurm, in->at.at[i]->ticket.key, &in->at.at[i]->cancel_s);
    if (!in->has_listed)
        slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_INBOX,
                                                .inbox = &whole}); /* (2) */
    in->has_listed = true;
}

/* --- released jobs -------------------------------------------------------- */

enum firn_status slurm_inbox_check(struct slurm *slurm, firn_job_id id,
                                   const struct firn_alloc *to,
                                   struct firn_error *err)
{
    struct firn_launch launch = {0};
    if (slurm->inbox == NULL ||
        !slurm->host.launch(slurm->host.arg, id, &launch) ||
        launch.inbox == NULL || launch.inbox[0] == '\0')
        return FIRN_OK;
    const struct guest *guest = find(slurm->inbox, launch.inbox);
    if (guest == NULL || !guest->is_listed)
        return firn_fail(err, FIRN_EREFUSED,
                         "Slurm's inbox has not listed the job yet");
    int nnodes = 0;
    for (int i = 0; i < to->nparts; i++)
        nnodes += i == 0 || to->parts[i].node != to->parts[i - 1].node;
    if (nnodes != guest->ticket.nnodes)
        return firn_fail(
            err, FIRN_EREFUSED, "the job asked for GPUs on exactly %d node%s",
            guest->ticket.nnodes, guest->ticket.nnodes > 1 ? "s" : "");
    return FIRN_OK;
}

const uint64_t *slurm_inbox_barred(struct slurm *slurm, firn_job_id id)
{
    struct firn_launch launch = {0};
    if (slurm->inbox == NULL || slurm->host.launch == NULL ||
        !slurm->host.launch(slurm->host.arg, id, &launch) ||
        launch.inbox == NULL || launch.inbox[0] == '\0')
        return NULL;
    const struct guest *guest = find(slurm->inbox, launch.inbox);
    return guest != NULL ? guest->barred : NULL;
}

/* (3) */
static void update(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_buf id = {0}, nodes = {0}, partition = {0}, count = {0};
    char number[SLURM_TICKET_ID];
    int n = 0;
    if (slurm_now_s(slurm) < job->cancel_s + again_s ||
        slurm->inbox->guests_asked_s <
            job->cancel_s || /* the last answer is older */
        !slurm_key_id(job->inbox, number))
        return;
    job->cancel_s = slurm_now_s(slurm); /* the time of the last command */
    buf_printf(&id, "JobId=%s", number);
    buf_printf(&partition, "Partition=%s", slurm->partition);
    buf_puts(&nodes, "ReqNodeList=");
    for (int i = 0; i < job->base.held.nparts; i++) {
        if (i > 0 &&
            job->base.held.parts[i].node == job->base.held.parts[i - 1].node)
            continue;
        buf_printf(&nodes, "%s%s", n++ > 0 ? "," : "",
                   slurm->names.at[job->base.held.parts[i].node]);
    }
    buf_printf(&count, "NumNodes=%d-%d", n, n);
    char limit[48] = "";
    const struct guest *guest = find(slurm->inbox, job->inbox);
    if (slurm->limit_s > 0 && guest != NULL && !(guest->ticket.limit_s > 0))
        snprintf(limit, sizeof limit, "TimeLimit=%.0f",
                 fmax(floor(slurm->limit_s / 60), 1));
    const char *argv[] = {"scontrol",
                          "update",
                          id.at,
                          partition.at,
                          nodes.at,
                          count.at,
                          limit[0] != '\0' ? limit : NULL,
                          NULL};
    slurm_run(slurm, argv,
              &(struct command){.limit_s = slurm_answer_s,
                                .tag = CMD_UPDATE,
                                .about = job->base.id,
                                .more = job->base.attempt});
    buf_release(&id);
    buf_release(&nodes);
    buf_release(&partition);
    buf_release(&count);
}

/* Slurm does not know the job: after two answers it is over. */
static void miss(struct slurm *slurm, struct slurmjob *job)
{
    if ((job->is_seen && slurm_state_is_over(job->state)) ||
        slurm->inbox->guests_asked_s < job->base.began_s || ++job->nmissing < 2)
        return;
    bool has_run = job->is_seen && job->state > SLURM_BOOTING;
    slurm_seen(slurm, job, job->slurm_id,
               has_run ? SLURM_COMPLETED : SLURM_CANCELLED);
}

static void take_guests(struct slurm *slurm,
                        const struct slurm_tickets *tickets)
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        struct slurmjob *job = slurm_at(slurm, i);
        if (job->inbox[0] == '\0' || job->base.held.nparts == 0)
            continue;
        const struct slurm_ticket *ticket =
            slurm_ticket_of(tickets, job->inbox);
        if (ticket == NULL) {
            miss(slurm, job);
            continue;
        }
        if (ticket->is_inside && ticket->state == SLURM_PENDING &&
            !job->base.is_planned)
            update(slurm, job);
        slurm_seen(slurm, job, ticket->number, ticket->state);
    }
}

/* --- answers -------------------------------------------------------------- */

/* Logs a problem once, until an answer is readable again. */
static void complain(struct slurm *slurm, const char *why)
{
    if (!slurm->inbox->has_complained)
        log_warn("the inbox cannot be read: %s", why);
    slurm->inbox->has_complained = true;
}

/* Slurm answered that the partition or the job does not exist. */
static bool is_denial(const struct command_done *done)
{
    return done->has_run && !done->is_late && done->status == 1 &&
           (strstr(done->err.at, "nvalid partition") != NULL ||
            strstr(done->err.at, "nvalid job id") != NULL);
}

static void read_answer(struct slurm *slurm, const struct command_done *done)
{
    struct slurm_inbox *in = slurm->inbox;
    struct slurm_tickets tickets = {0};
    struct firn_error err = {0};
    bool is_list = done->tag == CMD_LIST;
    if (slurm_tickets_read(&tickets, done->out,
                           is_list ? in->list_mark : in->guests_mark,
                           slurm->inbox_partition, &err) != FIRN_OK) {
        complain(slurm, err.text);
    } else {
        in->has_complained = false;
        (is_list ? take_list : take_guests)(slurm, &tickets);
    }
    slurm_tickets_release(&tickets);
}

static void take(struct slurm *slurm, const struct command_done *done)
{
    char text[SLURM_EXCERPT];
    double next_s = slurm_now_s(slurm) + 2 * slurm->poll_s;
    if (is_denial(done))
        complain(slurm, slurm_excerpt(done->err, text));
    else if (slurm_is_answer(slurm, "squeue", done))
        read_answer(slurm, done);
    if (done->tag == CMD_LIST)
        slurm->inbox->list_due_s = next_s;
    else
        slurm->inbox->guests_due_s = next_s;
}

/* The job runs or has run (an earlier, slow command released it), is gone, or
 * is busy: the next question finds out which. */
static bool is_too_late(const struct command_done *done)
{
    static const char *const words[] = {"no longer pending", "not pending nor",
                                        "already ", "nvalid job id",
                                        "try again"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(done->err.at, words[i]) != NULL)
            return true;
    return false;
}

static void release_refused(struct slurm *slurm,
                            const struct command_done *done)
{
    struct slurmjob *job = slurm_find(slurm, (firn_job_id)done->about);
    if (job == NULL || job->base.held.nparts == 0 || job->inbox[0] == '\0' ||
        job->base.attempt != done->more || !done->has_run ||
        !slurm_is_refusal(done) || is_too_late(done))
        return;
    job->is_refused = true; /* (5) */
    slurm_failure(done, job->refusal);
    slurm_seen(slurm, job, job->slurm_id, SLURM_LOST);
}

void slurm_inbox_answer(struct slurm *slurm, const struct command_done *done)
{
    char text[SLURM_EXCERPT];
    if (slurm->inbox == NULL)
        return;
    if (done->tag == CMD_LIST || done->tag == CMD_GUESTS)
        take(slurm, done);
    else if (done->tag == CMD_UPDATE && (done->is_late || done->status != 0)) {
        log_warn("job %d: scontrol failed: %s", (firn_job_id)done->about,
                 slurm_failure(done, text));
        release_refused(slurm, done);
    }
    if (done->tag == CMD_UPDATE || done->tag == CMD_END)
        slurm->inbox->guests_due_s = slurm_now_s(slurm);
}

/* --- requests of the engine ----------------------------------------------- */

void slurm_inbox_start(struct slurm *slurm, struct slurmjob *job)
{
    job->submit = SUBMIT_UNSURE;
    job->nmissing = 0;
    if (slurm->inbox == NULL) { /* Slurm is not asked about it any more */
        log_warn(
            "job %d came by Slurm's inbox, which is switched off; firn gives "
            "it up",
            job->base.id);
        slurm_seen(slurm, job, 0, SLURM_CANCELLED);
        return;
    }
    slurm->inbox->guests_due_s =
        slurm_now_s(slurm); /* asks for its state: (3) */
}

void slurm_inbox_cancel(struct slurm *slurm, struct slurmjob *job)
{
    if (job->is_seen && job->nmissing == 0) /* (1) */
        cancel_id(slurm, job->inbox, &job->cancel_s);
}

/* Adds a job that was in the inbox before this firnd started. */
static struct guest *expect(struct slurm_inbox *in, const char *key)
{
    struct guest *guest = mem_new(1, sizeof *guest);
    str_copy(guest->ticket.key, sizeof guest->ticket.key, key);
    guest->notice = (struct firn_inbox){
        .key = guest->ticket.key, .name = "", .user = "", .types = ""};
    guest->is_reported = true;
    vec_add(&in->at, guest);
    return guest;
}

void slurm_inbox_end(struct slurm *slurm, firn_job_id id)
{
    struct firn_launch launch = {0};
    if (slurm->inbox == NULL ||
        !slurm->host.launch(slurm->host.arg, id, &launch) ||
        launch.inbox == NULL || launch.inbox[0] == '\0')
        return;
    struct guest *guest = find(slurm->inbox, launch.inbox);
    if (guest == NULL)
        guest = expect(slurm->inbox, launch.inbox);
    guest->is_ending = true;
    if (guest->is_listed)
        cancel_id(slurm, guest->ticket.key, &guest->cancel_s);
    slurm->inbox->list_due_s = slurm_now_s(slurm);
}
