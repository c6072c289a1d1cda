/* slurmtext.c - reads jobs, tags, ids and versions that Slurm's commands print.
 *
 * A line of squeue has seven fields between bars; a user wrote the last two.
 * The fields before them never contain a bar and are checked byte by byte; the
 * rest has a tag only if it contains exactly one bar, so that a text with a bar
 * cannot pass for two fields.
 *
 *     11+1|RUNNING|None|n2|ann|firn:7:4:2|firn:7:4:2
 *
 * Invariants:
 * (1) a job is ours if its comment or its name is a tag (a site may write its
 *     own comments), and the two do not contradict each other;
 * (2) a tag is exactly what slurm_tag_print() prints;
 * (3) texts in the arena are printable ASCII.
 *
 * A line end within a name breaks the line in two, and the second half is an
 * error of the whole answer: slurm_poll.c removes such line ends before.
 *
 * Cost: O(bytes), and a sort by id.
 */
#include "engine/slurmtext.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPONENTS_MAX = 1 << 20 };
static const int64_t id_max = UINT32_MAX;

/* --- texts ---------------------------------------------------------------- */

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

const char *slurm_excerpt(struct firn_bytes text, char out[SLURM_EXCERPT])
{
    enum { LONGEST = 4, DOTS = 3 }; /* of one byte; at the end */
    size_t n = 0, i = 0;
    for (; i < text.n && n + LONGEST + DOTS < SLURM_EXCERPT; i++)
        if (is_printable(text.at[i]))
            out[n++] = text.at[i];
        else
            n += (size_t)snprintf(out + n, LONGEST + 1, "\\x%02x",
                                  (unsigned)(unsigned char)text.at[i]);
    snprintf(out + n, SLURM_EXCERPT - n, "%s", i < text.n ? "..." : "");
    return out;
}

bool slurm_line_next(struct firn_bytes *rest, struct firn_bytes *line)
{
    const char *end = rest->n > 0 ? memchr(rest->at, '\n', rest->n) : NULL;
    if (end == NULL)
        return false;
    *line = (struct firn_bytes){rest->at, (size_t)(end - rest->at)};
    rest->at = end + 1;
    rest->n -= line->n + 1;
    return true;
}

static bool read_digits(struct firn_bytes text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned digit = (unsigned)(unsigned char)text.at[i] - '0';
        if (digit > 9 || digit > max || value > (max - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    if (text.n > 0)
        *out = value;
    return text.n > 0;
}

bool slurm_number_read(struct firn_bytes text, int64_t max, int64_t *out)
{
    uint64_t value = 0;
    if (max < 0 || !read_digits(text, (uint64_t)max, &value))
        return false;
    *out = (int64_t)value;
    return true;
}

static bool is_text(struct firn_bytes text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_printable(text.at[i]))
            return false;
    return true;
}

const char *slurm_keep(struct arena *arena, struct firn_bytes text)
{
    char *copy = arena_alloc(arena, text.n + 1);
    for (size_t i = 0; i < text.n; i++)
        copy[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    return copy;
}

bool slurm_is_name(struct firn_bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
              (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.'))
            return false;
    }
    return text.n > 0;
}

/* Takes the text before the first `mark` off, with the mark; false: no mark. */
static bool take(struct firn_bytes *rest, char mark, struct firn_bytes *out)
{
    const char *end = rest->n > 0 ? memchr(rest->at, mark, rest->n) : NULL;
    if (end == NULL)
        return false;
    *out = (struct firn_bytes){rest->at, (size_t)(end - rest->at)};
    rest->n -= out->n + 1;
    rest->at = end + 1;
    return true;
}

static enum firn_status odd(struct firn_bytes text, const char *what,
                            struct firn_error *err)
{
    char shown[SLURM_EXCERPT];
    return firn_fail(err, FIRN_EINVAL, "%s: '%s'", what,
                     slurm_excerpt(text, shown));
}

/* --- states --------------------------------------------------------------- */

static const struct {
    const char *name;
    enum slurm_state state;
} states[] = {
    {"PENDING", SLURM_PENDING},       {"CONFIGURING", SLURM_BOOTING},
    {"POWER_UP_NODE", SLURM_BOOTING}, {"REQUEUED", SLURM_PENDING},
    {"REQUEUE_FED", SLURM_PENDING},   {"REQUEUE_HOLD", SLURM_PENDING},
    {"RESV_DEL_HOLD", SLURM_PENDING}, {"SPECIAL_EXIT", SLURM_PENDING},
    {"RUNNING", SLURM_RUNNING},       {"RESIZING", SLURM_RUNNING},
    {"SIGNALING", SLURM_RUNNING},     {"STAGE_OUT", SLURM_RUNNING},
    {"STOPPED", SLURM_SUSPENDED},     {"SUSPENDED", SLURM_SUSPENDED},
    {"EXPEDITING", SLURM_PENDING},    {"COMPLETING", SLURM_COMPLETING},
    {"COMPLETED", SLURM_COMPLETED},   {"FAILED", SLURM_FAILED},
    {"LAUNCH_FAILED", SLURM_FAILED},  {"RECONFIG_FAIL", SLURM_FAILED},
    {"CANCELLED", SLURM_CANCELLED},   {"TIMEOUT", SLURM_TIMEOUT},
    {"DEADLINE", SLURM_TIMEOUT},      {"OUT_OF_MEMORY", SLURM_MEMORY},
    {"NODE_FAIL", SLURM_LOST},        {"BOOT_FAIL", SLURM_LOST},
    {"PREEMPTED", SLURM_LOST},        {"REVOKED", SLURM_LOST},
};

bool slurm_state_named(const char *name, size_t n, enum slurm_state *out)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strlen(states[i].name) == n &&
            memcmp(states[i].name, name, n) == 0) {
            *out = states[i].state;
            return true;
        }
    return false;
}

bool slurm_state_is_over(enum slurm_state state)
{
    return state > SLURM_COMPLETING;
}

/* --- tags ----------------------------------------------------------------- */

void slurm_tag_print(const struct slurm_tag *tag, char out[SLURM_TAG_MAX])
{
    snprintf(out, SLURM_TAG_MAX, "firn:%" PRIu64 ":%" PRId64 ":%" PRId64,
             tag->cell, tag->job, tag->attempt);
}

bool slurm_tag_read(const char *text, size_t n, struct slurm_tag *out)
{
    struct firn_bytes rest = {text, n}, head, cell, job;
    struct slurm_tag tag;
    char again[SLURM_TAG_MAX];
    if (n >= SLURM_TAG_MAX || !take(&rest, ':', &head) || head.n != 4 ||
        memcmp(head.at, "firn", 4) != 0 || !take(&rest, ':', &cell) ||
        !read_digits(cell, UINT64_MAX, &tag.cell) || !take(&rest, ':', &job) ||
        !slurm_number_read(job, INT64_MAX, &tag.job) ||
        !slurm_number_read(rest, INT64_MAX, &tag.attempt))
        return false;
    slurm_tag_print(&tag, again); /* (2): no zeros in front */
    if (strlen(again) != n || memcmp(again, text, n) != 0)
        return false;
    *out = tag;
    return true;
}

void slurm_pilot_print(const struct slurm_tag *tag, int64_t pilot,
                       char out[SLURM_TAG_MAX])
{
    char mark[SLURM_TAG_MAX];
    slurm_tag_print(tag, mark);
    snprintf(out, SLURM_TAG_MAX, "%.*s:%" PRId64, SLURM_TAG_MAX - 22, mark,
             pilot);
}

bool slurm_pilot_read(const char *text, size_t n, struct slurm_tag *out,
                      int64_t *pilot)
{
    char again[SLURM_TAG_MAX];
    size_t head = n;
    while (head > 0 && text[head - 1] != ':')
        head--;
    if (head == 0 || n >= SLURM_TAG_MAX)
        return false;
    struct firn_bytes number = {text + head, n - head};
    if (!slurm_tag_read(text, head - 1, out) ||
        !slurm_number_read(number, INT64_MAX, pilot) || *pilot < 1)
        return false;
    slurm_pilot_print(out, *pilot, again); /* (2) */
    return strlen(again) == n && memcmp(again, text, n) == 0;
}

/* Either kind of tag. */
static bool read_any(struct firn_bytes text, struct slurm_tag *out,
                     int64_t *pilot)
{
    *pilot = 0;
    return slurm_tag_read(text.at, text.n, out) ||
           slurm_pilot_read(text.at, text.n, out, pilot);
}

/* "comment|name": see (1). */
static bool find_tag(struct firn_bytes tail, struct slurm_tag *out,
                     int64_t *pilot)
{
    struct firn_bytes comment, name = tail;
    struct slurm_tag by_comment, by_name;
    int64_t in_comment, in_name;
    if (!take(&name, '|', &comment) ||
        (name.n > 0 && memchr(name.at, '|', name.n) != NULL))
        return false;
    bool has_comment = read_any(comment, &by_comment, &in_comment);
    bool has_name = read_any(name, &by_name, &in_name);
    if (has_comment && has_name &&
        (in_comment != in_name || by_comment.cell != by_name.cell ||
         by_comment.job != by_name.job ||
         by_comment.attempt != by_name.attempt))
        return false;
    if (has_comment || has_name) {
        *out = has_comment ? by_comment : by_name;
        *pilot = has_comment ? in_comment : in_name;
    }
    return has_comment || has_name;
}

/* --- jobs ----------------------------------------------------------------- */

/* "12", "12+1", "12_3". */
static bool read_job_id(struct firn_bytes text, struct slurm_job *out,
                        bool *is_task)
{
    struct firn_bytes id = text, part = {text.at, 0};
    for (size_t i = 0; i < text.n && part.n == 0; i++)
        if (text.at[i] == '+' || text.at[i] == '_') {
            id.n = i;
            part = (struct firn_bytes){text.at + i, text.n - i};
        }
    int64_t number = -1;
    out->component = -1;
    *is_task = part.n > 0 && part.at[0] == '_';
    if (!slurm_number_read(id, id_max, &out->id) || out->id == 0)
        return false;
    if (part.n == 0)
        return true;
    struct firn_bytes digits = {part.at + 1, part.n - 1};
    if (!slurm_number_read(digits, *is_task ? id_max : COMPONENTS_MAX, &number))
        return false;
    if (!*is_task)
        out->component = (int)number;
    return true;
}

/* Only bytes of a list of hosts, such as "n1", "n[1-3,7],m2" or "". */
static bool is_hosts(struct firn_bytes text)
{
    static const char others[] = "._-,[]";
    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
              (c >= 'A' && c <= 'Z') || (c != '\0' && strchr(others, c))))
            return false;
    }
    return true;
}

/* Takes the last word of a text off, if it is a time: seconds since 1970, or
 * "N/A" and similar for none. */
static void cut_time(struct firn_bytes *text, double *out)
{
    static const int64_t latest = INT64_C(1) << 40;
    size_t n = text->n;
    int64_t at_s = 0;
    while (n > 0 && text->at[n - 1] != ' ')
        n--;
    if (n == 0)
        return; /* no time was asked for */
    struct firn_bytes word = {text->at + n, text->n - n};
    *out = slurm_number_read(word, latest, &at_s) ? (double)at_s : 0;
    text->n = n - 1;
}

static bool read_job(struct slurm_jobs *jobs, struct firn_bytes line)
{
    struct firn_bytes rest = line, id, state, reason, nodes, user;
    struct slurm_job job = {0};
    bool is_task = false;
    if (!take(&rest, '|', &id) || !take(&rest, '|', &state) ||
        !take(&rest, '|', &reason) || !take(&rest, '|', &nodes) ||
        !take(&rest, '|', &user) || rest.n == 0 ||
        memchr(rest.at, '|', rest.n) == NULL)
        return false;
    if (!read_job_id(id, &job, &is_task) ||
        !slurm_state_named(state.at, state.n, &job.state) || !is_text(reason) ||
        !is_hosts(nodes) || !is_text(user))
        return false;
    cut_time(&user, &job.ended_s);
    cut_time(&user, &job.began_s);
    job.is_ours = !is_task && find_tag(rest, &job.tag, &job.pilot);
    job.reason = slurm_keep(&jobs->text, reason);
    job.nodes = slurm_keep(&jobs->text, nodes);
    job.user = slurm_keep(&jobs->text, user);
    vec_add(&jobs->at, job);
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct slurm_job *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->component != y->component)
        return x->component < y->component ? -1 : 1;
    if (x->state != y->state) /* tasks of an array share their id */
        return x->state < y->state ? -1 : 1;
    int nodes = strcmp(x->nodes, y->nodes);
    int reason = nodes != 0 ? nodes : strcmp(x->reason, y->reason);
    return reason != 0 ? reason : strcmp(x->user, y->user);
}

enum firn_status slurm_jobs_read(struct slurm_jobs *out, struct firn_bytes text,
                                 struct firn_error *err)
{
    struct firn_bytes line;
    *out = (struct slurm_jobs){0};
    while (slurm_line_next(&text, &line))
        if (!read_job(out, line)) {
            slurm_jobs_release(out);
            return odd(line,
                       "squeue: a line should be id|state|reason|nodes|"
                       "user|comment|name, is",
                       err);
        }
    if (text.n > 0) {
        slurm_jobs_release(out);
        return odd(text, "squeue: the last line has no end", err);
    }
    if (out->at.n > 1)
        qsort(out->at.at, out->at.n, sizeof *out->at.at, by_id);
    return FIRN_OK;
}

void slurm_jobs_release(struct slurm_jobs *jobs)
{
    if (jobs == NULL)
        return;
    arena_release(&jobs->text);
    vec_release(&jobs->at);
}

/* --- ids and versions ----------------------------------------------------- */

/* The text is exactly one line. */
static bool only_line(struct firn_bytes text, struct firn_bytes *line)
{
    return slurm_line_next(&text, line) && text.n == 0;
}

enum firn_status slurm_id_read(struct firn_bytes text, int64_t *id,
                               struct firn_error *err)
{
    struct firn_bytes line, number;
    int64_t value = 0;
    if (!only_line(text, &line))
        return odd(text, "sbatch: the answer is not one line", err);
    struct firn_bytes cluster = line;
    if (!take(&cluster, ';', &number))
        number = line;
    if (!is_text(line) || !slurm_number_read(number, id_max, &value) ||
        value == 0)
        return odd(line, "sbatch: the answer is not a job number", err);
    *id = value;
    return FIRN_OK;
}

/* "slurm 22.05.8", or "slurm-wlm 22.05.8" as a distribution has it. */
enum firn_status slurm_version_read(struct firn_bytes text, int *version,
                                    struct firn_error *err)
{
    enum { OLDEST = 2205 };
    struct firn_bytes line = {0}, rest, name, major, minor;
    char shown[SLURM_EXCERPT];
    int64_t a = 0, b = 0;
    bool is_one = only_line(text, &line);
    rest = line;
    is_one = is_one && take(&rest, ' ', &name) && name.n >= 5 &&
             memcmp(name.at, "slurm", 5) == 0 && take(&rest, '.', &major) &&
             slurm_number_read(major, 99, &a);
    if (is_one && !take(&rest, '.', &minor))
        minor = rest;
    if (!is_one || minor.n != 2 || !slurm_number_read(minor, 99, &b))
        return firn_fail(err, FIRN_EREFUSED,
                         "sbatch --version: '%s' is not a version of Slurm",
                         slurm_excerpt(text, shown));
    if (100 * a + b < OLDEST)
        return firn_fail(err, FIRN_EREFUSED,
                         "Slurm is '%s'; firn needs 22.05 or later",
                         slurm_excerpt(line, shown));
    *version = (int)(100 * a + b);
    return FIRN_OK;
}
