/* launchslurm.c - reads arguments of sbatch and scancel against a closed list.
 *
 * firnd writes these arguments (slurm_batch.c, slurm_ask.c) from numbers,
 * Slurm's own names, slurm.options, and values of a job's `slurm:` block. The
 * reader is root, and does not rely on that:
 *
 * (1) an argument has printable letters and no blank, and is in a list here:
 *     as it stands, or by its name with any such value;
 * (2) a submission names each of its components firn:CELL:JOB:ATTEMPT with the
 *     numbers of the request, or all of them firn:CELL:JOB:ATTEMPT:NUMBER for a
 *     further allocation; its output goes nowhere, it starts in "/";
 * (3) a cancellation names the job by number and by that name, so it reaches
 *     no other job of the user.
 *
 * Cost: O(bytes of the arguments times the length of the list).
 */
#include "engine/launchslurm.h"
#include <stdio.h>
#include <string.h>

static const char name_option[] = "--job-name=";

/* Arguments of sbatch that are passed on as they stand. ":" is between the
 * components of a heterogeneous job. */
static const char *const fixed[] = {"--parsable",
                                    "--export=ALL",
                                    "--no-requeue",
                                    "--output=/dev/null",
                                    "--error=/dev/null",
                                    "--input=/dev/null",
                                    "--chdir=/",
                                    "--exclusive",
                                    "--contiguous",
                                    "--overcommit",
                                    ":"};

/* ... and options with a value. */
static const char *const named[] = {"--account",       "--comment",
                                    "--constraint",    "--cpus-per-gpu",
                                    "--cpus-per-task", "--exclude",
                                    "--gpus-per-node", "--gres",
                                    "--hint",          "--job-name",
                                    "--licenses",      "--mem",
                                    "--mem-per-cpu",   "--mem-per-gpu",
                                    "--nice",          "--nodelist",
                                    "--nodes",         "--ntasks",
                                    "--partition",     "--ntasks-per-node",
                                    "--qos",           "--reservation",
                                    "--signal",        "--switches",
                                    "--time",          "--threads-per-core",
                                    "--tmp",           "--wckey",
                                    "--prefer",        "--time-min"};

/* Takes the next argument off `rest`; false: none is left, or (1). */
static bool next(struct firn_bytes *rest, struct firn_bytes *word)
{
    const char *end = rest->n > 0 ? memchr(rest->at, '\n', rest->n) : NULL;
    if (end == NULL)
        return false;
    *word = (struct firn_bytes){rest->at, (size_t)(end - rest->at)};
    rest->at = end + 1;
    rest->n -= word->n + 1;
    for (size_t i = 0; i < word->n; i++)
        if (word->at[i] <= ' ' || word->at[i] > '~')
            return false;
    return word->n > 0;
}

static bool is(struct firn_bytes word, const char *text)
{
    return word.n == strlen(text) && memcmp(word.at, text, word.n) == 0;
}

static bool begins(struct firn_bytes word, const char *text)
{
    size_t n = strlen(text);
    return word.n >= n && memcmp(word.at, text, n) == 0;
}

static bool is_number(struct firn_bytes word)
{
    for (size_t i = 0; i < word.n; i++)
        if (word.at[i] < '0' || word.at[i] > '9')
            return false;
    return word.n > 0 && word.n <= 20 && word.at[0] != '0';
}

static bool is_listed(struct firn_bytes word)
{
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (is(word, fixed[i]))
            return true;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        size_t n = strlen(named[i]);
        if (word.n > n + 1 && begins(word, named[i]) && word.at[n] == '=')
            return true;
    }
    return false;
}

/* "OPTIONfirn:CELL:JOB:ATTEMPT" with the numbers of the request: (2), (3). */
static bool is_first_tag(struct firn_bytes word, const char *option,
                         const struct launchslurm_job *job)
{
    char head[40], tail[48];
    int n = snprintf(head, sizeof head, "%sfirn:", option);
    int m = snprintf(tail, sizeof tail, ":%d:%lld", job->job,
                     (long long)job->attempt);
    size_t before = (size_t)n, behind = (size_t)m;
    return word.n > before + behind && begins(word, head) &&
           memcmp(word.at + word.n - behind, tail, behind) == 0 &&
           is_number(
               (struct firn_bytes){word.at + before, word.n - before - behind});
}

/* The same with ":NUMBER" behind it. */
static bool is_pilot_tag(struct firn_bytes word, const char *option,
                         const struct launchslurm_job *job)
{
    size_t head = word.n;
    while (head > 0 && word.at[head - 1] != ':')
        head--;
    return head > 0 &&
           is_number((struct firn_bytes){word.at + head, word.n - head}) &&
           is_first_tag((struct firn_bytes){word.at, head - 1}, option, job);
}

bool launchslurm_is_pilot(struct firn_bytes words,
                          const struct launchslurm_job *job)
{
    struct firn_bytes word;
    while (next(&words, &word))
        if (begins(word, name_option))
            return is_pilot_tag(word, name_option, job);
    return false;
}

bool launchslurm_is_sbatch(struct firn_bytes words,
                           const struct launchslurm_job *job)
{
    struct firn_bytes word;
    int nparts = 1, nnames = 0;
    bool is_pilot = launchslurm_is_pilot(words, job);
    bool has_output = false, has_error = false, has_folder = false;
    while (words.n > 0) {
        if (!next(&words, &word) || !is_listed(word))
            return false;
        nparts += is(word, ":");
        if (begins(word, name_option)) {
            if (!(is_pilot ? is_pilot_tag : is_first_tag)(word, name_option,
                                                          job))
                return false;
            nnames++;
        }
        has_output = has_output || is(word, "--output=/dev/null");
        has_error = has_error || is(word, "--error=/dev/null");
        has_folder = has_folder || is(word, "--chdir=/");
    }
    return nnames == nparts && has_output && has_error && has_folder;
}

bool launchslurm_is_scancel(struct firn_bytes words,
                            const struct launchslurm_job *job)
{
    struct firn_bytes how, name, number;
    return next(&words, &how) && next(&words, &name) && next(&words, &number) &&
           words.n == 0 && (is(how, "--state=PENDING") || is(how, "--quiet")) &&
           (is_first_tag(name, "--name=", job) ||
            is_pilot_tag(name, "--name=", job)) &&
           is_number(number);
}
