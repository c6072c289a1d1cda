/* replay.c - reads an event log and checks it on its own.
 *
 * Header, then events, then the summary; see sim/eventlog.h for the format.
 * Nothing of core is used: what a valid schedule is stands here a second
 * time, on purpose. The events are checked in replayjobs.c, the numbers of the
 * summary in recount.c.
 *
 * In another world than the honest one the artifact's own rounding is part of
 * the rules and work does not add up to the second: there that, and only that,
 * is not checked.
 *
 * Any bytes are survived: each line is checked before it is believed, and
 * memory grows with the lines read, except for the cluster's nodes and GPUs,
 * whose number is limited.
 */
#include "sim/replay.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/str.h"
#include "sim/replaylog.h"
#include "sim/summary.h"
#include "sim/world.h"
#include <math.h>
#include <string.h>

enum { SETTINGS = 19, NEEDED = 9, FIELDS_MAX = 64 };

/* What the header has, once each. */
struct header {
    bool has_trace, has_policy, has_seed, has_sharers, has_cluster, has_world;
    bool has_setting[SETTINGS];
    double settings[SETTINGS];
    uint64_t seed;
    int jobs_per_gpu, nnodes, ngpus;
    bool has_ends; /* jobs have quiet ends */
};

/* The first NEEDED must be there. */
static const char *const setting_names[SETTINGS] = {
    "restart_s",    "scaling",          "share_slowdown",      "interval_s",
    "quantum_s",    "mtbf_s",           "charges_first_start", "mttr_s",
    "checkpoint_s", "noise_throughput", "noise_sharing",       "noise_transfer",
    "noise_report", "noise_iterations", "elastic_min",         "elastic_max",
    "resize_s",     "resize_prepare_s", "resize_slowdown",
};
/* Lines that say how a run was asked for and that change no check: what is
 * behind the name, a text (t) or a number (n) each. */
static const struct remark {
    const char *name, *shape;
} remarks[] = {
    {"setting", "t"},      {"profiles", "t"},      {"failures", "t"},
    {"freeze", "t"},       {"forecast", "t"},      {"restart_of", "tn"},
    {"resize_of", "tnnn"}, {"slowdown_of", "t"},   {"restart_all", "t"},
    {"resize_all", "t"},   {"transfers", "t"},     {"pair_of", "ttn"},
    {"starts", "t"},       {"prepared_of", "ntn"}, {"end_of", "tn"}};
enum { RESTART_S = 0, QUANTUM_S = 4, CHECKPOINT_S = 8 };

struct reading {
    struct replay replay;
    struct header header;
    struct firn_sim_result said;
    struct lines *in;
    struct firn_buf text; /* the line, with those it goes on in */
    struct firn_error *err;
};

bool replay_next(struct lines *in, struct firn_buf *text,
                 enum firn_status *status, struct firn_error *err)
{
    *status = FIRN_OK;
    buf_clear(text);
    buf_puts(text, "");
    bool goes_on;
    do {
        char *line = lines_next(in);
        if (!line)
            return false;
        if (lines_bad(in)) {
            *status = firn_fail(err, FIRN_EINVAL,
                                "the line is too long or holds a NUL byte");
            return true;
        }
        size_t n = strlen(line);
        goes_on = n > 0 && line[n - 1] == '\\';
        buf_add(text, line, goes_on ? n - 1 : n);
    } while (goes_on);
    return true;
}

int replay_split(char *text, char **columns, int max)
{
    int n = 0;
    for (char *at = text; at && n < max;) {
        columns[n++] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n;
}

/* The next whole line, split at tabs. False at the end of the file. */
static bool next(struct reading *reading, enum firn_status *status)
{
    struct replay *r = &reading->replay;
    int max = (int)(sizeof r->columns / sizeof *r->columns);
    bool is_there =
        replay_next(reading->in, &reading->text, status, reading->err);
    r->line = lines_number(reading->in);
    r->ncolumns = 0;
    if (is_there && *status == FIRN_OK)
        r->ncolumns = replay_split(reading->text.at, r->columns, max);
    return is_there;
}

bool replay_unquote(char *text)
{
    static const char codes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || text[n - 1] != '"')
        return false;
    char *to = text;
    text[n - 1] = '\0';
    for (const char *at = text + 1; *at != '\0'; at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        at++;
        const char *code = codes;
        while (*code != '\0' && *code != *at)
            code += 2;
        if (*code != '\0') {
            *to++ = code[1];
        } else if (*at == 'u' && strnlen(at, 5) == 5) {
            *to++ = '?'; /* a control character: it is only a name */
            at += 4;
        } else {
            return false;
        }
    }
    *to = '\0';
    return true;
}

/* Copies a quoted name, cut to its place. */
static enum firn_status take_name(struct reading *reading, bool *has, char *out,
                                  size_t size)
{
    struct replay *r = &reading->replay;
    if (*has || r->ncolumns < 2 || !replay_unquote(r->columns[1]))
        return firn_fail(reading->err, FIRN_EINVAL,
                         "'%.40s' stands twice or has no name behind it",
                         r->columns[0]);
    *has = true;
    (void)str_copy(out, size, r->columns[1]);
    return FIRN_OK;
}

static enum firn_status take_cluster(struct reading *reading)
{
    struct replay *r = &reading->replay;
    struct header *h = &reading->header;
    long nnodes, ngpus;
    FIRN_TRY(take_name(reading, &h->has_cluster, reading->said.cluster,
                       sizeof reading->said.cluster));
    if (r->ncolumns != 4 ||
        !str_int(r->columns[2], 1, FIRN_NODES_MAX, &nnodes) ||
        !str_int(r->columns[3], 1, LEDGER_GPUS_MAX, &ngpus))
        return firn_fail(reading->err, FIRN_EINVAL,
                         "the cluster's size cannot be read");
    h->nnodes = (int)nnodes;
    h->ngpus = (int)ngpus;
    return FIRN_OK;
}

/* "0-23 8 "v100" up" */
static enum firn_status take_nodes(struct reading *reading)
{
    struct replay *r = &reading->replay;
    long first, last, ngpus;
    if (r->ncolumns != 5)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "'nodes' has %d columns, not 5", r->ncolumns);
    char *dash = strchr(r->columns[1], '-');
    if (dash)
        *dash++ = '\0';
    bool is_up = strcmp(r->columns[4], "up") == 0;
    if (!str_int(r->columns[1], 0, FIRN_NODES_MAX, &first) ||
        !str_int(dash ? dash : r->columns[1], 0, FIRN_NODES_MAX, &last) ||
        !str_int(r->columns[2], 1, FIRN_NODE_GPUS_MAX, &ngpus) ||
        (!is_up && strcmp(r->columns[4], "down") != 0))
        return firn_fail(reading->err, FIRN_EINVAL, "the nodes cannot be read");
    struct ledger_run run = {.first = (int)first,
                             .last = (int)last,
                             .ngpus = (int)ngpus,
                             .is_up = is_up};
    return ledger_add(&r->ledger, run, reading->err);
}

static enum firn_status take_setting(struct reading *reading)
{
    struct replay *r = &reading->replay;
    struct header *h = &reading->header;
    const char *value = r->ncolumns == 2 ? r->columns[1] : "";
    long sharers;
    for (int i = 0; i < SETTINGS; i++) {
        if (strcmp(r->columns[0], setting_names[i]) != 0)
            continue;
        if (h->has_setting[i] || !str_double(value, &h->settings[i]))
            return firn_fail(reading->err, FIRN_EINVAL,
                             "'%s' stands twice or is no number",
                             setting_names[i]);
        h->has_setting[i] = true;
        return FIRN_OK;
    }
    if (strcmp(r->columns[0], "jobs_per_gpu") != 0 || h->has_sharers)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "'%.40s' does not belong there", r->columns[0]);
    if (!str_int(value, 1, LEDGER_SHARERS_MAX, &sharers))
        return firn_fail(reading->err, FIRN_EINVAL,
                         "'jobs_per_gpu' is not from 1 to %d",
                         LEDGER_SHARERS_MAX);
    h->has_sharers = true;
    h->jobs_per_gpu = (int)sharers;
    return FIRN_OK;
}

static const struct remark *find_remark(const char *key)
{
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        if (strcmp(key, remarks[i].name) == 0)
            return &remarks[i];
    return NULL;
}

static enum firn_status take_remark(struct reading *reading,
                                    const struct remark *remark)
{
    struct replay *r = &reading->replay;
    size_t n = strlen(remark->shape);
    bool is_good = (size_t)r->ncolumns == n + 1;
    for (size_t i = 0; i < n && is_good; i++) {
        double number;
        is_good = remark->shape[i] == 't'
                      ? replay_unquote(r->columns[i + 1])
                      : str_double(r->columns[i + 1], &number);
    }
    if (!is_good)
        return firn_fail(reading->err, FIRN_EINVAL, "'%s' cannot be read",
                         r->columns[0]);
    reading->header.has_ends |= strcmp(remark->name, "end_of") == 0;
    return FIRN_OK;
}

static enum firn_status take_header(struct reading *reading)
{
    struct header *h = &reading->header;
    struct firn_sim_result *said = &reading->said;
    const char *key = reading->replay.columns[0];
    if (strcmp(key, "trace") == 0)
        return take_name(reading, &h->has_trace, said->trace,
                         sizeof said->trace);
    if (strcmp(key, "policy") == 0)
        return take_name(reading, &h->has_policy, said->policy,
                         sizeof said->policy);
    if (strcmp(key, "world") == 0)
        return take_name(reading, &h->has_world, said->world,
                         sizeof said->world);
    const struct remark *remark = find_remark(key);
    if (remark != NULL)
        return take_remark(reading, remark);
    if (strcmp(key, "cluster") == 0)
        return take_cluster(reading);
    if (strcmp(key, "nodes") == 0)
        return take_nodes(reading);
    if (strcmp(key, "seed") != 0)
        return take_setting(reading);
    if (h->has_seed || reading->replay.ncolumns != 2)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "'seed' stands twice or has no number");
    h->has_seed = true;
    struct summary_field seed = {.name = "seed",
                                 .kind = SUMMARY_SEED,
                                 .offset =
                                     offsetof(struct firn_sim_result, seed)};
    return summary_read(&seed, reading->replay.columns[1], said, reading->err);
}

static enum firn_status end_header(struct reading *reading)
{
    struct header *h = &reading->header;
    struct replay *r = &reading->replay;
    bool is_whole = h->has_trace && h->has_policy && h->has_seed &&
                    h->has_sharers && h->has_cluster;
    for (int i = 0; i < NEEDED; i++)
        is_whole = is_whole && h->has_setting[i];
    if (!is_whole)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "the header before this line is not whole");
    if (h->nnodes != r->ledger.nnodes || h->ngpus != r->ledger.ngpus)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "the cluster has %d nodes and %d GPUs, not %d and %d",
                         r->ledger.nnodes, r->ledger.ngpus, h->nnodes,
                         h->ngpus);
    ledger_seal(&r->ledger, h->jobs_per_gpu);
    reading->said.restart_s = h->settings[RESTART_S];
    reading->header.seed = reading->said.seed;
    r->quantum_s = h->settings[QUANTUM_S];
    r->checkpoint_s = h->settings[CHECKPOINT_S];
    r->adds_up = strcmp(reading->said.world, world_honest.name) == 0 &&
                 !reading->header.has_ends;
    return FIRN_OK;
}

/* The lines behind "end": each field once. */
static enum firn_status take_summary(struct reading *reading)
{
    struct replay *r = &reading->replay;
    bool has[FIELDS_MAX] = {false};
    size_t n, i;
    const struct summary_field *fields = summary_fields(&n);
    enum firn_status status;
    while (next(reading, &status)) {
        FIRN_TRY(status);
        for (i = 0; i < n; i++)
            if (strcmp(fields[i].name, r->columns[0]) == 0)
                break;
        if (i == n || has[i] || r->ncolumns != 2 ||
            fields[i].kind == SUMMARY_TEXT || fields[i].is_measured)
            return firn_fail(reading->err, FIRN_EINVAL,
                             "'%.40s' does not belong there", r->columns[0]);
        FIRN_TRY(summary_read(&fields[i], r->columns[1], &reading->said,
                              reading->err));
        has[i] = true;
    }
    for (i = 0; i < n; i++)
        if (!has[i] && fields[i].kind != SUMMARY_TEXT && !fields[i].is_measured)
            return firn_fail(reading->err, FIRN_EINVAL,
                             "the summary has no '%s'", fields[i].name);
    if (reading->said.seed != reading->header.seed ||
        reading->said.restart_s != reading->header.settings[RESTART_S])
        return firn_fail(reading->err, FIRN_EINVAL,
                         "header and summary differ in seed or restart_s");
    return recount_compare(&r->count, &reading->said, reading->err);
}

static bool is_event(const char *column)
{
    return (*column >= '0' && *column <= '9') || *column == '-';
}

/* Header and events, up to "end"; then the summary. */
static enum firn_status read_log(struct reading *reading)
{
    struct replay *r = &reading->replay;
    bool is_header = true;
    enum firn_status status;
    if (!next(reading, &status) || status != FIRN_OK ||
        strcmp(reading->text.at, "#firn-log 1") != 0)
        return firn_fail(reading->err, FIRN_EINVAL,
                         "this is no event log: it does not begin with "
                         "'#firn-log 1'");
    while (next(reading, &status)) {
        FIRN_TRY(status);
        bool is_end = strcmp(r->columns[0], "end") == 0;
        r->is_aborted = strcmp(r->columns[0], "aborted") == 0;
        if (r->is_aborted)
            return firn_fail(reading->err, FIRN_EINVAL,
                             "the run was aborted: there is no summary");
        if (is_header && (is_end || is_event(r->columns[0]))) {
            FIRN_TRY(end_header(reading));
            is_header = false;
        }
        if (is_end) {
            FIRN_TRY(replay_settled(r));
            return take_summary(reading);
        }
        FIRN_TRY(is_header ? take_header(reading) : replay_event(r));
    }
    return firn_fail(reading->err, FIRN_EINVAL,
                     "the log stops without a summary");
}

enum firn_status replay_watched(struct lines *in, const char *where,
                                const struct replay_watch *watch,
                                struct firn_sim_result *out,
                                struct firn_error *err)
{
    struct firn_error why = {0};
    struct reading *reading = mem_new(1, sizeof *reading);
    reading->in = in;
    reading->err = reading->replay.err = &why;
    reading->said.cpu_s = NAN;
    reading->replay.watch = watch;
    str_copy(reading->said.world, sizeof reading->said.world,
             world_honest.name);
    enum firn_status status = read_log(reading);
    if (watch && watch->over)
        watch->over(watch->arg, &reading->replay, &reading->said);
    if (lines_failed(in))
        status = firn_fail(err, FIRN_EIO, "%s: cannot be read", where);
    else if (status != FIRN_OK)
        firn_fail(err, status, "%s: line %ld: %s", where, reading->replay.line,
                  why.text);
    else
        *out = reading->said;
    replay_release(&reading->replay);
    buf_release(&reading->text);
    mem_free(reading);
    return status;
}

enum firn_status replay_lines(struct lines *in, const char *where,
                              struct firn_sim_result *out,
                              struct firn_error *err)
{
    return replay_watched(in, where, NULL, out, err);
}

enum firn_status firn_sim_replay(const char *log_path,
                                 struct firn_sim_result *out,
                                 struct firn_error *err)
{
    struct lines *in;
    FIRN_TRY(lines_open(&in, log_path, err));
    enum firn_status status = replay_lines(in, log_path, out, err);
    lines_close(in);
    return status;
}
