/* cbc.c - a child process with a deadline, and a second look at its answer.
 *
 * The problem goes out as a free-format MPS file and the answer comes back as
 * cbc's solution file. Both are files that lost their name right after they
 * were made; the child finds them as /dev/fd/3 and /dev/fd/4, so there is
 * nothing to clean up however either process ends. No shell is involved. The
 * child is the leader of its own process group. cbc gets the deadline as a
 * limit of processor time, so its answer is the same on a busy machine. The
 * group is killed when three times the deadline has passed by the clock, in
 * case the program hangs or gets no processor time.
 *
 * Invariants:
 * (1) when cbc_solve() returns, the child has been waited for;
 * (2) `x` is written only after milp_holds() accepted it and the objective
 *     claimed is the one recomputed.
 *
 * An answer "infeasible" cannot be checked, except by a caller that knows a
 * solution. Values come with eight digits: enough for whole numbers; continuous
 * columns are as exact as that.
 */
#include "math/cbc.h"
#include "base/buf.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    MODEL_FD = 3, /* in the child */
    ANSWER_FD = 4,
    ANSWER_MAX = 1 << 26, /* bytes; a longer answer is rejected */
    PATIENCE = 3,         /* deadlines */
};

static const double tolerance = 1e-6;

/* ---- a second look ---- */

bool milp_holds(const struct milp *problem, const double *x)
{
    for (int c = 0; c < problem->ncols; c++) {
        const struct milp_col *col = &problem->cols[c];
        double slack = tolerance * fmax(1, fabs(x[c]));
        if (!(x[c] >= col->lower - slack && x[c] <= col->upper + slack))
            return false; /* NaN too */
        if (col->is_integer && x[c] != nearbyint(x[c]))
            return false;
    }
    for (int r = 0; r < problem->nrows; r++) {
        const struct milp_row *row = &problem->rows[r];
        double sum = 0, size = 1;
        for (int k = 0; k < row->nterms; k++) {
            double part = row->terms[k].factor * x[row->terms[k].col];
            sum += part;
            size = fmax(size, fabs(part));
        }
        if (!(sum >= row->lower - tolerance * size &&
              sum <= row->upper + tolerance * size))
            return false;
    }
    return true;
}

double milp_value(const struct milp *problem, const double *x)
{
    double sum = 0;
    for (int c = 0; c < problem->ncols; c++)
        sum += problem->cols[c].cost * x[c];
    return sum;
}

/* ---- the question ---- */

static void put(struct firn_buf *out, const char *lead, int index, double value)
{
    buf_printf(out, "%s%d ", lead, index);
    buf_double(out, value);
    buf_putc(out, '\n');
}

/* 'E', 'L' or 'G' and a range; 'N' for a row that holds always. */
static char row_kind(const struct milp_row *row)
{
    if (row->lower == row->upper)
        return 'E';
    if (isfinite(row->lower))
        return 'G';
    return isfinite(row->upper) ? 'L' : 'N';
}

/* MPS goes by columns: (row, factor) of each, behind one another. */
struct by_column {
    int *first; /* per column, and one past the end */
    struct milp_term *terms;
};

static struct by_column transpose(const struct milp *problem,
                                  struct arena *scratch)
{
    size_t n = 0, ncols = (size_t)problem->ncols;
    for (int r = 0; r < problem->nrows; r++)
        n += (size_t)problem->rows[r].nterms;
    struct by_column by = {arena_alloc(scratch, (ncols + 2) * sizeof(int)),
                           arena_alloc(scratch, (n + 1) * sizeof(*by.terms))};
    for (int r = 0; r < problem->nrows; r++)
        for (int k = 0; k < problem->rows[r].nterms; k++)
            by.first[problem->rows[r].terms[k].col + 2]++;
    for (size_t c = 2; c < ncols + 2; c++)
        by.first[c] += by.first[c - 1];
    for (int r = 0; r < problem->nrows; r++)
        for (int k = 0; k < problem->rows[r].nterms; k++) {
            const struct milp_term *term = &problem->rows[r].terms[k];
            by.terms[by.first[term->col + 1]++] =
                (struct milp_term){r, term->factor};
        }
    return by;
}

static void put_columns(struct firn_buf *out, const struct milp *problem,
                        struct arena *scratch)
{
    struct by_column by = transpose(problem, scratch);
    bool was_integer = false;
    for (int c = 0; c < problem->ncols; c++) {
        const struct milp_col *col = &problem->cols[c];
        if (col->is_integer != was_integer)
            buf_printf(out, " M%d 'MARKER' '%s'\n", c,
                       col->is_integer ? "INTORG" : "INTEND");
        was_integer = col->is_integer;
        buf_printf(out, " c%d obj ", c);
        buf_double(out, col->cost);
        buf_putc(out, '\n');
        for (int k = by.first[c]; k < by.first[c + 1]; k++) {
            buf_printf(out, " c%d", c);
            put(out, " r", by.terms[k].col, by.terms[k].factor);
        }
    }
    if (was_integer)
        buf_puts(out, " MEND 'MARKER' 'INTEND'\n");
}

static void put_bounds(struct firn_buf *out, const struct milp *problem)
{
    for (int c = 0; c < problem->ncols; c++) {
        const struct milp_col *col = &problem->cols[c];
        if (isfinite(col->lower))
            put(out, " LO B c", c, col->lower);
        else
            buf_printf(out, " MI B c%d\n", c);
        if (isfinite(col->upper))
            put(out, " UP B c", c, col->upper);
        else
            buf_printf(out, " PL B c%d\n", c);
    }
}

static void put_model(struct firn_buf *out, const struct milp *problem,
                      struct arena *scratch)
{
    buf_puts(out, "NAME firn FREE\nROWS\n N obj\n");
    for (int r = 0; r < problem->nrows; r++)
        buf_printf(out, " %c r%d\n", row_kind(&problem->rows[r]), r);
    buf_puts(out, "COLUMNS\n");
    put_columns(out, problem, scratch);
    buf_puts(out, "RHS\n");
    for (int r = 0; r < problem->nrows; r++) {
        const struct milp_row *row = &problem->rows[r];
        char kind = row_kind(row);
        if (kind != 'N')
            put(out, " S r", r, kind == 'L' ? row->upper : row->lower);
    }
    buf_puts(out, "RANGES\n");
    for (int r = 0; r < problem->nrows; r++) {
        const struct milp_row *row = &problem->rows[r];
        if (row_kind(row) == 'G' && isfinite(row->upper))
            put(out, " S r", r, row->upper - row->lower);
    }
    buf_puts(out, "BOUNDS\n");
    put_bounds(out, problem);
    buf_puts(out, "ENDATA\n");
}

/* ---- the child ---- */

/* A file without a name; -1 on failure. */
static int nameless(void)
{
    const char *folder = getenv("TMPDIR");
    struct firn_buf path = {0};
    buf_printf(&path, "%s/firn-cbc.XXXXXX",
               folder != NULL && *folder ? folder : "/tmp");
    int fd = mkstemp(path.at);
    if (fd >= 0)
        unlink(path.at);
    buf_release(&path);
    if (fd < 0)
        return -1;
    /* Above the numbers that the child uses, and closed in it. */
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    close(fd);
    return high;
}

static bool write_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static bool read_all(int fd, struct firn_buf *out)
{
    char piece[4096];
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(fd, piece, sizeof piece, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        buf_add(out, piece, (size_t)n);
        at += n;
        if (at > ANSWER_MAX)
            return false;
    }
}

/* Starts cbc; returns its process id, or -1. */
static pid_t spawn(const struct cbc *cbc, int model, int answer)
{
    char seconds[32], gap[STR_DOUBLE_MAX];
    snprintf(seconds, sizeof seconds, "%.0f", ceil(cbc->deadline_s));
    double_text(cbc->gap, gap);
    const char *const words[] = {
        "cbc", "/dev/fd/3", "-seconds",  seconds,     "-ratioGap",
        gap,   "-solve",    "-solution", "/dev/fd/4", NULL};
    char *args[sizeof words / sizeof *words];
    memcpy(args, words, sizeof args); /* exec's prototype lacks a const */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, pipes;
    sigemptyset(&none);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    sigaddset(&pipes, SIGINT);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                        POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &pipes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, model, MODEL_FD);
    posix_spawn_file_actions_adddup2(&actions, answer, ANSWER_FD);
    pid_t pid = -1;
    if (posix_spawnp(&pid, cbc->program ? cbc->program : "cbc", &actions, &attr,
                     args, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return pid;
}

/* Has the child ended by `end_s`? It is not waited for yet, so the kernel does
 * not reuse its id or that of its group. */
static bool ends_by(pid_t pid, double end_s)
{
    long nap_ns = 200000;
    for (;;) {
        siginfo_t info = {0};
        int rc = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
        if (rc == 0 && info.si_pid == pid)
            return true;
        if (rc < 0 && errno != EINTR)
            return true; /* another part of this process waited for it */
        if (clock_elapsed_s() >= end_s)
            return false;
        nanosleep(&(struct timespec){0, nap_ns}, NULL);
        nap_ns = nap_ns < 4000000 ? nap_ns * 5 / 4 : nap_ns;
    }
}

/* Waits for the child and kills what is left of its group: (1). */
static enum cbc_answer await(pid_t pid, double deadline_s)
{
    int status = 0;
    bool is_late = !ends_by(pid, clock_elapsed_s() + PATIENCE * deadline_s);
    kill(-pid, SIGKILL); /* and whatever it started itself */
    pid_t got;
    do {
        got = waitpid(pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    if (is_late)
        return CBC_LATE;
    if (got < 0 || !WIFEXITED(status))
        return CBC_CRASHED;
    if (WEXITSTATUS(status) == 127) /* where exec fails after the fork */
        return CBC_MISSING;
    return WEXITSTATUS(status) == 0 ? CBC_SOLVED : CBC_CRASHED;
}

/* ---- the answer ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* "Optimal - objective value 12.5", or why not. */
static enum cbc_answer read_verdict(const char *text, double *claimed)
{
    const char *value = strstr(text, "objective value");
    if (begins(text, "Infeasible") || begins(text, "Integer infeasible") ||
        begins(text, "Unbounded"))
        return CBC_INFEASIBLE;
    if (begins(text, "Stopped on time"))
        return CBC_LATE;
    if (!begins(text, "Optimal") || value == NULL)
        return CBC_GARBLED;
    value += strlen("objective value");
    char *end;
    *claimed = strtod(value, &end);
    return end == value ? CBC_GARBLED : CBC_SOLVED;
}

/* A line "  12 c12  1  -0.5", or "** 12 c12 ..." for a column out of bounds. */
static bool read_column(const char *line, long *col, double *value)
{
    char *end;
    line += strspn(line, " *");
    strtol(line, &end, 10); /* the line's number, not used */
    if (end == line)
        return false;
    line = end + strspn(end, " ");
    if (*line != 'c')
        return false;
    *col = strtol(line + 1, &end, 10);
    if (end == line + 1 || *end != ' ')
        return false;
    line = end;
    *value = strtod(line, &end);
    return end != line;
}

/* Columns that are not named are 0. */
static bool read_columns(const char *text, const struct milp *problem,
                         double *x)
{
    for (const char *line = strchr(text, '\n'); line != NULL && line[1] != '\0';
         line = strchr(line + 1, '\n')) {
        long col;
        double value;
        if (!read_column(line + 1, &col, &value) || col < 0 ||
            col >= problem->ncols)
            return false;
        if (problem->cols[col].is_integer &&
            fabs(value - nearbyint(value)) < 1e-5)
            value = nearbyint(value);
        x[col] = value;
    }
    return true;
}

static enum cbc_answer read_answer(const char *text, const struct milp *problem,
                                   double *x)
{
    double claimed = 0;
    enum cbc_answer verdict = read_verdict(text, &claimed);
    if (verdict != CBC_SOLVED)
        return verdict;
    if (!read_columns(text, problem, x))
        return CBC_GARBLED;
    double value = milp_value(problem, x);
    if (!milp_holds(problem, x) ||
        !(fabs(value - claimed) <= tolerance * fmax(1, fabs(value))))
        return CBC_LIED;
    return CBC_SOLVED;
}

static enum cbc_answer run(const struct cbc *cbc, const char *text, size_t n,
                           struct firn_buf *answer)
{
    enum cbc_answer how = CBC_MISSING;
    int model_fd = nameless(), answer_fd = nameless();
    if (model_fd >= 0 && answer_fd >= 0 && write_all(model_fd, text, n)) {
        pid_t pid = spawn(cbc, model_fd, answer_fd);
        if (pid > 0)
            how = await(pid, cbc->deadline_s);
    }
    if (how == CBC_SOLVED && !read_all(answer_fd, answer))
        how = CBC_GARBLED;
    if (model_fd >= 0)
        close(model_fd);
    if (answer_fd >= 0)
        close(answer_fd);
    return how;
}

enum cbc_answer cbc_solve(struct cbc *cbc, const struct milp *problem,
                          struct arena *scratch, double *x)
{
    struct firn_buf model = {0}, answer = {0};
    size_t n = (size_t)problem->ncols;
    double *found = arena_alloc(scratch, (n + 1) * sizeof *found);
    put_model(&model, problem, scratch);
    enum cbc_answer how = run(cbc, model.at, model.n, &answer);
    if (how == CBC_SOLVED) {
        buf_putc(&answer, '\0');
        how = read_answer(answer.at, problem, found);
    }
    if (how == CBC_SOLVED)
        memcpy(x, found, n * sizeof *x);
    buf_release(&model);
    buf_release(&answer);
    cbc->counts[how]++;
    return how;
}

const char *cbc_answer_text(enum cbc_answer answer)
{
    static const char *const texts[CBC_ANSWERS] = {
        "solved",  "infeasible", "missing", "crashed",
        "garbled", "lied",       "late"};
    return texts[answer];
}
