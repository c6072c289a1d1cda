/* slurmask.c - the `slurm:` block of a job file as options of Slurm's commands.
 *
 *     slurm: {account: ml, qos: high, cpus: 8, mem: 60GiB, constraint: ib,
 *             mpi: pmix, options: --cpu-bind=cores}
 *
 * account, qos, partition, cpus, mem, time and constraint are options of
 * sbatch; mpi, container and the further options are those of srun, which
 * starts the workers. firnd runs these commands as its own user, so a user's
 * text must not become an option that writes files, runs programs or changes
 * whose job it is:
 *
 * (1) a value consists of the letters of its kind, and never of blanks;
 * (2) of further options only those in `allowed` pass, each as one word
 *     "--name" or "--name=value".
 */
#include "daemon/slurmask.h"
#include <firn/status.h>
#include <string.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                            "yz0123456789._-";
static const char constraint[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-&|,*[]()";
static const char image[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                            "yz0123456789._-/:#@+";
static const char value[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                            "yz0123456789._-/:#@+,=";

/* (2) */
static const char *const allowed[] = {
    "--cpu-bind",        "--cpu-freq",          "--distribution",
    "--gpu-bind",        "--gpu-freq",          "--hint",
    "--mem-bind",        "--network",           "--threads-per-core",
    "--ntasks-per-core", "--container-workdir", "--container-mounts",
    "--container-name",  "--overcommit",        "--profile"};

static bool is_allowed(const char *word, size_t n)
{
    size_t name = 0;
    while (name < n && word[name] != '=')
        name++;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strlen(allowed[i]) == name && strncmp(word, allowed[i], name) == 0)
            return strspn(word, value) >= n; /* (1) */
    return false;
}

/* The next word of the options; NULL: none is left. */
static const char *next_word(const char **at, size_t *n)
{
    *at += strspn(*at, " ");
    const char *word = *at;
    *n = strcspn(word, " ");
    *at += *n;
    return *n > 0 ? word : NULL;
}

enum firn_status slurmask_check(const struct live_ask *ask,
                                struct firn_error *err)
{
    const struct {
        const char *key, *text, *letters;
    } texts[] = {{"account", ask->slurm_account, plain},
                 {"qos", ask->slurm_qos, plain},
                 {"partition", ask->slurm_partition, plain},
                 {"constraint", ask->slurm_constraint, constraint},
                 {"mpi", ask->slurm_mpi, plain},
                 {"container", ask->slurm_container, image}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text != NULL &&
            (texts[i].text[0] == '-' ||
             texts[i].text[strspn(texts[i].text, texts[i].letters)] != '\0'))
            return firn_fail(err, FIRN_EINVAL,
                             "'slurm: %s' is '%.60s', which has letters that "
                             "are not allowed there",
                             texts[i].key, texts[i].text);
    const char *at = ask->slurm_options != NULL ? ask->slurm_options : "";
    size_t n, nwords = 0;
    for (const char *word; (word = next_word(&at, &n)) != NULL;)
        if (!is_allowed(word, n) || ++nwords > SLURMASK_MAX / 2)
            return firn_fail(
                err, FIRN_EINVAL,
                "'slurm: options' has '%.*s', which is not one of "
                "the srun options that a job may set (docs/jobs.md)",
                (int)(n < 60 ? n : 60), word);
    return FIRN_OK;
}

void slurmask_submit(const struct live_ask *ask, struct arena *text,
                     const char *out[SLURMASK_MAX])
{
    const struct {
        const char *option, *value;
    } texts[] = {{"account", ask->slurm_account},
                 {"qos", ask->slurm_qos},
                 {"partition", ask->slurm_partition},
                 {"constraint", ask->slurm_constraint}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value[0] != '\0')
            out[n++] =
                arena_printf(text, "--%s=%s", texts[i].option, texts[i].value);
    if (ask->slurm_cpus > 0)
        out[n++] = arena_printf(text, "--cpus-per-task=%d", ask->slurm_cpus);
    if (ask->slurm_mem_gib > 0)
        out[n++] = arena_printf(text, "--mem-per-gpu=%.0fM",
                                1024 * ask->slurm_mem_gib);
    out[n] = NULL;
}

void slurmask_step(const struct live_ask *ask, struct arena *text,
                   const char *out[SLURMASK_MAX])
{
    size_t n = 0, size;
    const char *at = ask->slurm_options;
    if (ask->slurm_mpi[0] != '\0')
        out[n++] = arena_printf(text, "--mpi=%s", ask->slurm_mpi);
    if (ask->slurm_container[0] != '\0')
        out[n++] =
            arena_printf(text, "--container-image=%s", ask->slurm_container);
    for (const char *word;
         n + 1 < SLURMASK_MAX && (word = next_word(&at, &size)) != NULL;)
        out[n++] = arena_printf(text, "%.*s", (int)size, word);
    out[n] = NULL;
}
