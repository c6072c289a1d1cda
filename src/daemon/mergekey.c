/* mergekey.c - a key from the parts of a job file, and which part differs.
 *
 * A table has the parts, each with the function that writes it. The key is all
 * of them one after another, every text with its length before it, so that no
 * value can pass for another part. Differences are found by writing the same
 * parts of two jobs, so that key and sentence agree.
 *
 * In the key: the user, the base, the program, the folder, the environment,
 * the rule of freezing (FIRN_FREEZE), a language model's shape. Not in it:
 * settings that the co-trained job gets by FIRN_MATE_* (command, dataset,
 * checkpoints, threads, freeze.max); those that the scheduler follows for both
 * (GPUs, types, priority, queue, retries, consistency); the grace, of which a
 * pair has the longer; and memory, of which a pair needs the sum
 * (desk_merge.c).
 *
 * The program is the first word of the command, unless that runs another one:
 * then all words up to the script or module, or, if there is none, the whole
 * command. If this guess is wrong, two jobs are not merged that could be.
 *
 * Cost: O(length), and the variables are sorted.
 */
#include "daemon/mergekey.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct part {
    const char *differs;
    void (*put)(const struct live_ask *ask, firn_job_id id,
                struct firn_buf *out);
};

static void put_text(struct firn_buf *out, const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;
    buf_printf(out, "%zu:", n);
    buf_add(out, text, n);
}

/* --- the program --------------------------------------------------------- */

/* "/usr/bin/python3.11" is python. */
static bool runs_others(const char *word)
{
    static const char *const names[] = {
        "python",  "pypy",   "perl",      "ruby",     "lua",        "julia",
        "Rscript", "node",   "sh",        "bash",     "dash",       "zsh",
        "ksh",     "env",    "nice",      "nohup",    "time",       "timeout",
        "setsid",  "stdbuf", "taskset",   "numactl",  "torchrun",   "uv",
        "conda",   "poetry", "deepspeed", "mpirun",   "accelerate", "mpiexec",
        "srun",    "xargs",  "sudo",      "apptainer"};
    const char *slash = strrchr(word, '/');
    const char *base = slash != NULL ? slash + 1 : word;
    size_t n = strlen(base);
    while (n > 0 && strchr("0123456789.", base[n - 1]) != NULL)
        n--;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(names[i], base, n) == 0)
            return true;
    return false;
}

static bool is_script(const char *word)
{
    static const char *const ends[] = {".py", ".sh",  ".pl", ".rb",
                                       ".R",  ".lua", ".jl", ".js"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (files_ends(word, ends[i]))
            return true;
    return false;
}

/* How many words of a command name the program; the others are its arguments.
 */
static size_t program_words(char *const *argv)
{
    size_t n = 0;
    while (argv[n] != NULL)
        n++;
    bool runs = n > 0 && runs_others(argv[0]);
    for (size_t i = 1; i < n; i++) {
        bool names_next =
            strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "-c") == 0;
        if (is_script(argv[i]))
            return i + 1;
        if (runs && names_next && i + 1 < n)
            return i + 2;
        if (!runs && argv[i][0] == '-')
            return 1;
    }
    return runs || n == 0 ? n : 1;
}

static void put_program(const struct live_ask *ask, firn_job_id id,
                        struct firn_buf *out)
{
    (void)id;
    for (size_t i = 0; ask->argv != NULL && i < program_words(ask->argv); i++)
        put_text(out, ask->argv[i]);
}

bool mergekey_same_program(const struct live_ask *a, const struct live_ask *b)
{
    struct firn_buf one = {0}, two = {0};
    put_program(a, 0, &one);
    put_program(b, 0, &two);
    bool is_same =
        one.n > 0 && one.n == two.n && memcmp(one.at, two.at, one.n) == 0;
    buf_release(&one);
    buf_release(&two);
    return is_same;
}

/* --- the environment ----------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of their bytes; the caller frees it by mem_free. */
static const char **sorted(char *const *env, size_t *n)
{
    *n = 0;
    while (env != NULL && env[*n] != NULL)
        (*n)++;
    const char **list = mem_new(*n + 1, sizeof *list);
    for (size_t i = 0; i < *n; i++)
        list[i] = env[i];
    if (*n > 1)
        qsort(list, *n, sizeof *list, by_text);
    return list;
}

static void put_env(const struct live_ask *ask, firn_job_id id,
                    struct firn_buf *out)
{
    size_t n;
    const char **list = sorted(ask->env, &n);
    (void)id;
    for (size_t i = 0; i < n; i++)
        put_text(out, list[i]);
    mem_free(list);
}

/* The name of the first variable in which the two differ. */
static void put_variable(const struct live_ask *a, const struct live_ask *b,
                         struct firn_buf *out)
{
    size_t na, nb, i = 0;
    const char **one = sorted(a->env, &na), **two = sorted(b->env, &nb);
    while (i < na && i < nb && strcmp(one[i], two[i]) == 0)
        i++;
    const char *x = i < na ? one[i] : NULL, *y = i < nb ? two[i] : NULL;
    const char *first = x == NULL || (y != NULL && strcmp(y, x) < 0) ? y : x;
    if (first != NULL) {
        buf_puts(out, ": ");
        buf_add(out, first, strcspn(first, "="));
    }
    mem_free(one);
    mem_free(two);
}

/* --- the rest ------------------------------------------------------------ */

static void put_user(const struct live_ask *ask, firn_job_id id,
                     struct firn_buf *out)
{
    (void)id;
    put_text(out, ask->user);
}

static void put_base(const struct live_ask *ask, firn_job_id id,
                     struct firn_buf *out)
{
    (void)id;
    put_text(out, ask->base);
}

/* A path begins with '/', so no job's folder has another's number. */
static void put_folder(const struct live_ask *ask, firn_job_id id,
                       struct firn_buf *out)
{
    if (ask->workdir != NULL && ask->workdir[0] != '\0')
        put_text(out, ask->workdir);
    else
        buf_printf(out, "#%d", id);
}

static void put_freeze(const struct live_ask *ask, firn_job_id id,
                       struct firn_buf *out)
{
    (void)id;
    put_text(out, ask->freeze);
}

static void put_model(const struct live_ask *ask, firn_job_id id,
                      struct firn_buf *out)
{
    (void)id;
    put_text(out, ask->model);
}

static const struct part parts[] = {
    {"another user's", put_user},
    {"base differs", put_base},
    {"the program differs (run)", put_program},
    {"workdir differs", put_folder},
    {"env differs", put_env},
    {"the rule of freezing differs", put_freeze},
    {"model differs", put_model},
};
enum { NPARTS = sizeof parts / sizeof *parts };

void mergekey_text(const struct live_ask *ask, firn_job_id id,
                   struct firn_buf *out)
{
    for (size_t i = 0; i < NPARTS; i++) {
        parts[i].put(ask, id, out);
        buf_putc(out, '\n');
    }
}

static void tell(const struct part *part, const struct live_job *a,
                 const struct live_job *b, struct firn_buf *out)
{
    bool has_none = a->ask.workdir[0] == '\0' && b->ask.workdir[0] == '\0';
    if (part->put == put_folder && has_none)
        buf_puts(out, "each runs in its own folder, for want of a workdir");
    else
        buf_puts(out, part->differs);
    if (part->put == put_env)
        put_variable(&a->ask, &b->ask, out);
}

bool mergekey_differs(const struct live_job *a, const struct live_job *b,
                      struct firn_buf *out)
{
    struct firn_buf one = {0}, two = {0};
    bool differs = false;
    for (size_t i = 0; i < NPARTS && !differs; i++) {
        buf_clear(&one);
        buf_clear(&two);
        parts[i].put(&a->ask, a->id, &one);
        parts[i].put(&b->ask, b->id, &two);
        differs =
            one.n != two.n || (one.n > 0 && memcmp(one.at, two.at, one.n) != 0);
        if (differs)
            tell(&parts[i], a, b, out);
    }
    buf_release(&one);
    buf_release(&two);
    return differs;
}
