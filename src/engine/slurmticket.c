/* slurmticket.c - a strict reader of squeue's records of other users' jobs.
 *
 * A record is its fields with "|mark|" between them, and "|mark;" and a line
 * end behind the last. The user's name and the job's name come last; their
 * bytes are kept as they are.
 *
 * A record that breaks the format is an error of the whole answer; a request
 * that cannot be placed is a ticket with a reason in `why`.
 */
#include "engine/slurmticket.h"
#include "base/buf.h"
#include "base/str.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum field {
    ID,
    RESTARTS,
    HET,
    STATE,
    PARTITION,
    SUBMIT,
    LIMIT,
    NODES,
    TASKS,
    PER_JOB,
    PER_NODE,
    PER_TASK,
    PER_SOCKET,
    REASON,
    FEATURES,
    ACCOUNT,
    USER,
    NAME,
    NFIELDS
};

static const char *const fields[] = {
    [ID] = "JobArrayID",
    [RESTARTS] = "RestartCnt",
    [HET] = "HetJobID",
    [STATE] = "State",
    [PARTITION] = "Partition",
    [SUBMIT] = "SubmitTime",
    [LIMIT] = "TimeLimit",
    [NODES] = "NumNodes",
    [TASKS] = "NumTasks",
    [PER_JOB] = "tres-per-job",
    [PER_NODE] = "tres-per-node",
    [PER_TASK] = "tres-per-task",
    [PER_SOCKET] = "tres-per-socket",
    [REASON] = "Reason",
    [FEATURES] = "Feature",
    [ACCOUNT] = "Account",
    [USER] = "UserName",
    [NAME] = "Name",
};

enum { MARK_MAX = 32, GPUS_MOST = 1 << 20, NODES_MOST = 1 << 16 };

void slurm_ticket_format(uint64_t mark, struct firn_buf *out)
{
    for (int i = 0; i < NFIELDS; i++)
        buf_printf(out, "%s%s:|%" PRIx64 "%s", i > 0 ? "," : "", fields[i],
                   mark, i + 1 < NFIELDS ? "|" : ";");
}

void slurm_tickets_release(struct slurm_tickets *tickets)
{
    arena_release(&tickets->text);
    vec_release(&tickets->at);
}

/* --- records -------------------------------------------------------------- */

static const char *find(struct firn_bytes in, const char *what, size_t n)
{
    for (size_t i = 0; i + n <= in.n; i++)
        if (memcmp(in.at + i, what, n) == 0)
            return in.at + i;
    return NULL;
}

/* Takes the text before `mark` off, with the mark; false: no such mark. */
static bool cut(struct firn_bytes *rest, const char *mark, const char **out,
                struct arena *text)
{
    size_t nmark = strlen(mark);
    const char *end = find(*rest, mark, nmark);
    if (end == NULL)
        return false;
    size_t n = (size_t)(end - rest->at);
    if (memchr(rest->at, '\0', n) != NULL)
        return false;
    char *copy = arena_alloc(text, n + 1);
    memcpy(copy, rest->at, n);
    copy[n] = '\0';
    *out = copy;
    rest->at = end + nmark;
    rest->n -= n + nmark;
    return true;
}

/* --- values --------------------------------------------------------------- */

static bool is_none(const char *text)
{
    return text[0] == '\0' || strcmp(text, "N/A") == 0 ||
           strcmp(text, "(null)") == 0;
}

/* Reads "17" or "17_3"; false: not a job that can be placed by itself. */
static bool read_id(const char *text, struct slurm_ticket *out)
{
    long number = 0, task = 0;
    char head[SLURM_TICKET_ID];
    size_t n = strcspn(text, "_");
    if (!str_copy(out->id, sizeof out->id, text) ||
        !str_copy(head, sizeof head, text))
        return false;
    if (n < strlen(head))
        head[n] = '\0';
    out->number = str_int(head, 1, 0xffffffffL, &number) ? number : 0;
    return out->number > 0 &&
           (text[n] == '\0' || str_int(text + n + 1, 0, 0xffffffffL, &task));
}

/* Takes the number before any of `ends` off, with the end. */
static bool cut_number(const char **at, const char *ends, double *out)
{
    size_t n = strcspn(*at, ends);
    char digits[8];
    long number = 0;
    if (n >= sizeof digits || strspn(*at, "0123456789") != n)
        return false;
    memcpy(digits, *at, n);
    digits[n] = '\0';
    if (!str_int(digits, 0, 9999999, &number))
        return false;
    *out = (double)number;
    *at += n + ((*at)[n] != '\0');
    return true;
}

/* "UNLIMITED", "10:00", "1:00:00", "1-02:04:00". */
bool slurm_time_read(const char *text, double *out)
{
    double total_s = 0, number = 0;
    *out = 0;
    if (strcmp(text, "UNLIMITED") == 0)
        return true;
    int left = 3; /* hours, minutes, seconds; the first may be missing */
    if (strchr(text, '-') != NULL) {
        if (!cut_number(&text, "-", &number))
            return false;
        total_s = 24 * number; /* so far in hours */
    } else if (strchr(text, ':') == strrchr(text, ':')) {
        left = 2;
    }
    for (; left > 0; left--) {
        if (!cut_number(&text, ":", &number))
            return false;
        total_s = (left == 3 ? total_s : 60 * total_s) + number;
    }
    *out = text[0] == '\0' ? total_s : 0;
    return *out > 0;
}

/* Skips the CPUs for each task that later versions of Slurm put in front of a
 * list, "cpu=4,gres/gpu=1". */
static const char *past_cores(const char *text)
{
    if (strncmp(text, "cpu=", 4) != 0 && strncmp(text, "cpu:", 4) != 0)
        return text;
    size_t n = 4 + strspn(text + 4, "0123456789");
    if (n == 4 || (text[n] != '\0' && text[n] != ','))
        return text;
    return text + n + (text[n] == ',');
}

/* Reads "gres:gpu", "gres:gpu:2", "gres/gpu:a100:2", "gres/gpu=2"; false: not
 * only GPUs of one type. */
static bool read_gpus(const char *text, char type[FIRN_NAME_MAX], int *out)
{
    long n = 1;
    char word[128];
    if ((strncmp(text, "gres:gpu", 8) != 0 &&
         strncmp(text, "gres/gpu", 8) != 0) ||
        !str_copy(word, sizeof word, text + 8))
        return false;
    char *last = strchr(word, '=');
    if (last == NULL)
        last = strrchr(word, ':');
    type[0] = '\0';
    if (last != NULL && str_int(last + 1, 1, GPUS_MOST, &n))
        *last = '\0';
    *out = (int)n;
    if (word[0] == '\0')
        return true;
    return word[0] == ':' && word[1] != '\0' && strchr(word + 1, ':') == NULL &&
           strchr(word, ',') == NULL && str_copy(type, FIRN_NAME_MAX, word + 1);
}

/* --- what it asks for ----------------------------------------------------- */

static void set_problem(struct slurm_ticket *ticket, const char *why)
{
    if (ticket->why[0] == '\0')
        str_copy(ticket->why, sizeof ticket->why, why);
}

static void read_request(const char *const *f, struct slurm_ticket *out)
{
    static const enum field asks[] = {PER_JOB, PER_NODE, PER_TASK};
    long nodes = 0, tasks = 0;
    const char *request = NULL;
    enum field kind = PER_JOB;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        const char *asked = past_cores(f[asks[i]]);
        if (is_none(asked))
            continue;
        if (request != NULL)
            set_problem(out, "it asks for GPUs in two ways at once");
        request = asked;
        kind = asks[i];
    }
    if (!is_none(f[PER_SOCKET]))
        set_problem(out, "it asks for GPUs per socket");
    if (!str_int(f[NODES], 1, NODES_MOST, &nodes))
        set_problem(out, "it does not ask for a number of nodes");
    if (request == NULL)
        set_problem(out, "it asks for no GPUs");
    else if (!read_gpus(request, out->type, &out->gpus))
        set_problem(out, "it asks for more than GPUs of one type");
    out->nnodes = (int)nodes;
    long factor = 1;
    if (kind == PER_NODE)
        factor = nodes;
    else if (kind == PER_TASK)
        factor = str_int(f[TASKS], 1, GPUS_MOST, &tasks) ? tasks : 0;
    if (factor < 1 || out->gpus > GPUS_MOST / factor)
        set_problem(out, "its number of GPUs is out of range");
    else
        out->gpus *= (int)factor;
}

static bool is_ready(const char *reason)
{
    static const char *const waits[] = {"JobHeld", "Dependency", "BeginTime",
                                        "JobArrayTaskLimit"};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (strncmp(reason, waits[i], strlen(waits[i])) == 0)
            return false;
    return true;
}

/* False: the record breaks the format. */
static bool read_ticket(const char *const *f, const char *partition,
                        struct slurm_ticket *out)
{
    double submit_s = 0;
    long nrestarts = 0;
    *out = (struct slurm_ticket){.user = f[USER],
                                 .name = f[NAME],
                                 .features =
                                     is_none(f[FEATURES]) ? "" : f[FEATURES],
                                 .account = f[ACCOUNT]};
    if (!slurm_state_named(f[STATE], strlen(f[STATE]), &out->state) ||
        !str_double(f[SUBMIT], &submit_s) || !(submit_s > 0) ||
        !str_int(f[RESTARTS], 0, 1 << 30, &nrestarts))
        return false;
    out->nrestarts = (int)nrestarts;
    if (!read_id(f[ID], out)) {
        set_problem(out, "it is a part of a job");
        str_copy(out->id, sizeof out->id, f[ID]);
    }
    if (!is_none(f[HET]) && strcmp(f[HET], "0") != 0)
        set_problem(out, "it is a part of a job");
    out->submit_s = submit_s;
    out->is_inside = strcmp(f[PARTITION], partition) == 0;
    out->is_ready = is_ready(f[REASON]);
    snprintf(out->key, sizeof out->key, "%s-%.0f", out->id, submit_s);
    for (char *at = out->key; *at != '\0'; at++)
        *at = *at == '_' ? '.' : *at;
    if (!slurm_time_read(f[LIMIT], &out->limit_s))
        set_problem(out, "its time limit is unreadable");
    read_request(f, out);
    return true;
}

enum firn_status slurm_tickets_read(struct slurm_tickets *out,
                                    struct firn_bytes text, uint64_t mark,
                                    const char *partition,
                                    struct firn_error *err)
{
    char between[MARK_MAX], last[MARK_MAX], excerpt[SLURM_EXCERPT];
    snprintf(between, sizeof between, "|%" PRIx64 "|", mark);
    snprintf(last, sizeof last, "|%" PRIx64 ";", mark);
    *out = (struct slurm_tickets){0};
    while (text.n > 0) {
        const char *f[NFIELDS];
        struct firn_bytes record = text;
        struct slurm_ticket ticket;
        bool is_good = true;
        for (int i = 0; i < NFIELDS && is_good; i++)
            is_good =
                cut(&text, i + 1 < NFIELDS ? between : last, &f[i], &out->text);
        is_good = is_good && text.n > 0 && text.at[0] == '\n' &&
                  read_ticket(f, partition, &ticket);
        if (!is_good)
            return firn_fail(err, FIRN_EDATA, "squeue printed '%s'",
                             slurm_excerpt(record, excerpt));
        text.at++;
        text.n--;
        vec_add(&out->at, ticket);
    }
    return FIRN_OK;
}

static bool has_feature(const char *features, const char *name, size_t n)
{
    for (const char *at = features; *at != '\0';) {
        size_t size = strcspn(at, ",");
        if (size == n && strncmp(at, name, n) == 0)
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

enum slurm_fit slurm_features_fit(const char *asked, const char *features)
{
    bool is_or = strchr(asked, '|') != NULL;
    bool is_and = strpbrk(asked, "&,") != NULL;
    if ((is_or && is_and) || strpbrk(asked, "*()[]") != NULL)
        return SLURM_FIT_UNKNOWN;
    bool fits = !is_or;
    for (const char *at = asked; *at != '\0';) {
        size_t n = strcspn(at, "|&,");
        bool has = has_feature(features, at, n);
        fits = is_or ? fits || has : fits && has;
        at += n + (at[n] != '\0');
    }
    return asked[0] == '\0' || fits ? SLURM_FIT_YES : SLURM_FIT_NO;
}

bool slurm_key_id(const char *key, char id[SLURM_TICKET_ID])
{
    size_t n = strcspn(key, "-");
    if (n == 0 || n >= SLURM_TICKET_ID || strspn(key, "0123456789.") != n ||
        key[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        id[i] = key[i] == '.' ? '_' : key[i];
    id[n] = '\0';
    return true;
}

const struct slurm_ticket *slurm_ticket_of(const struct slurm_tickets *all,
                                           const char *key)
{
    char id[SLURM_TICKET_ID];
    const struct slurm_ticket *found = NULL;
    if (!slurm_key_id(key, id))
        return NULL;
    for (size_t i = 0; i < all->at.n; i++) {
        const struct slurm_ticket *at = &all->at.at[i];
        if (strcmp(at->key, key) == 0)
            return at;
        if (at->nrestarts > 0 && !at->is_inside && strcmp(at->id, id) == 0)
            found = at;
    }
    return found;
}
