/* slurm_open.c - discovers the cluster: version, partition, nodes, sharing.
 *
 * Asked once, before anything is decided. If Slurm does not answer within
 * seconds, the kept answers of the last start are used (slurm_kept.c), and the
 * engine begins in trouble. Without kept answers the questions are repeated
 * without end, and the log says every minute what the engine waits for: firnd
 * may be started before Slurm.
 *
 * Without slurm.partition it is Slurm's default partition. Nodes without GPUs
 * are ignored. A node's id is its place among the partition's nodes with GPUs,
 * in Slurm's order.
 *
 * Sharing a GPU needs shards (or MPS) by slots on every node: only then can the
 * engine choose the GPU of a share, and Slurm keeps whole and shared GPUs
 * apart. Otherwise no job shares, and `no_sharing` says why.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <fcntl.h>
#include <firn/bytes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const double say_every_s = 60;
static const double soon_s = 4, patience_s = 3; /* with kept answers */

/* --- questions with a wait ------------------------------------------------ */

/* The limit of one answer, and until when the question is repeated. */
struct patience {
    double limit_s, until_s;
};

static enum firn_status ask_once(struct slurm *slurm, const char *const *argv,
                                 const struct command *command,
                                 struct firn_buf *out, struct firn_error *err)
{
    struct command_done done;
    char text[SLURM_EXCERPT];
    slurm_run(slurm, argv, command);
    while (!commands_next(slurm->commands, &done)) {
        struct pollfd fd = {.fd = commands_fd(slurm->commands),
                            .events = POLLIN};
        poll(&fd, 1, 1000);
    }
    buf_clear(out);
    if (done.has_run && !done.is_late && done.status == 0) {
        buf_add(out, done.out.at, done.out.n);
        return FIRN_OK;
    }
    return firn_fail(err, done.has_run ? FIRN_EIO : FIRN_ENOENT,
                     "Slurm's %s failed: %s", argv[0],
                     slurm_failure(&done, text));
}

enum firn_status slurm_ask(struct slurm *slurm, const char *const *argv,
                           double limit_s, struct firn_buf *out,
                           struct firn_error *err)
{
    return ask_once(slurm, argv, &(struct command){.limit_s = limit_s}, out,
                    err);
}

enum firn_status slurm_ask_with(struct slurm *slurm, const char *const *argv,
                                const char *const *env, double limit_s,
                                struct firn_buf *out)
{
    struct firn_error none = {0};
    return ask_once(slurm, argv,
                    &(struct command){.limit_s = limit_s, .env = env}, out,
                    &none);
}

static enum firn_status ask(struct slurm *slurm, const char *const *argv,
                            const struct patience *patience,
                            struct firn_buf *out, struct firn_error *err)
{
    double say_s = 0;
    for (;;) {
        struct firn_error why = {0};
        enum firn_status status =
            slurm_ask(slurm, argv, patience->limit_s, out, &why);
        double now_s = clock_elapsed_s();
        if (status == FIRN_OK)
            return status;
        if (status != FIRN_EIO || now_s >= patience->until_s)
            return firn_fail(err, status, "%s", why.text);
        if (now_s >= say_s) {
            log_warn("waiting for slurmctld to list the nodes: %s", why.text);
            say_s = now_s + say_every_s;
        }
        poll(NULL, 0, (int)(1000 * fmin(slurm->poll_s, 1)));
    }
}

static struct firn_bytes bytes_of(const struct firn_buf *buf)
{
    return (struct firn_bytes){buf->n > 0 ? buf->at : "", buf->n};
}

/* --- partitions ----------------------------------------------------------- */

/* "PartitionName=main ... Default=YES ...", a line each: finds the default
 * partition, and reads the limits of ours. */
static enum firn_status read_partitions(struct slurm *slurm,
                                        const struct patience *patience,
                                        struct firn_error *err)
{
    static const char *const argv[] = {"scontrol", "-o", "show", "partition",
                                       NULL};
    static const char key[] = "PartitionName=";
    struct firn_buf text = {0};
    enum firn_status status = ask(slurm, argv, patience, &text, err);
    struct firn_bytes rest = bytes_of(&text), line;
    while (status == FIRN_OK && slurm_line_next(&rest, &line)) {
        char *copy = mem_new(line.n + 1, 1);
        memcpy(copy, line.at, line.n);
        const char *name = copy + sizeof key - 1;
        int n = strncmp(copy, key, sizeof key - 1) == 0
                    ? (int)strcspn(name, " ")
                    : 0;
        if (slurm->partition[0] == '\0' && n > 0 &&
            strstr(copy, " Default=YES ") != NULL)
            snprintf(slurm->partition, sizeof slurm->partition, "%.*s", n,
                     name);
        if (n > 0 && strlen(slurm->partition) == (size_t)n &&
            strncmp(slurm->partition, name, (size_t)n) == 0)
            slurm_limits_read(slurm, copy);
        mem_free(copy);
    }
    buf_release(&text);
    if (status == FIRN_OK && slurm->partition[0] == '\0')
        status = firn_fail(err, FIRN_EINVAL,
                           "Slurm has no default partition: set "
                           "slurm.partition=NAME");
    return status;
}

/* --- the cluster ---------------------------------------------------------- */

/* The memory of a type in slurm.memory, "a100:40,v100:16", as "@40"; "": not
 * given. */
static enum firn_status memory_of(const struct slurm *slurm, const char *type,
                                  char out[32], struct firn_error *err)
{
    size_t n = strlen(type);
    out[0] = '\0';
    for (const char *at = slurm->memory; *at != '\0';) {
        size_t size = strcspn(at, ","), colon = strcspn(at, ":");
        char number[24];
        double gib = 0;
        if (colon >= size || size - colon > sizeof number)
            return firn_fail(
                err, FIRN_EINVAL,
                "slurm.memory=%.100s is not of the form TYPE:GIB,TYPE:GIB",
                slurm->memory);
        snprintf(number, sizeof number, "%.*s", (int)(size - colon - 1),
                 at + colon + 1);
        if (!str_double(number, &gib) || !(gib > 0))
            return firn_fail(
                err, FIRN_EINVAL,
                "slurm.memory: '%s' is not a number of GiB above 0", number);
        if (colon == n && strncmp(at, type, n) == 0)
            snprintf(out, 32, "@%s", number);
        at += size + (at[size] == ',');
    }
    return FIRN_OK;
}

static void add_host(struct slurm *slurm, const struct slurm_node *node)
{
    struct slurm_host host = {.name = arena_strdup(&slurm->text, node->name),
                              .host = arena_strdup(&slurm->text, node->host),
                              .type = arena_strdup(&slurm->text, node->type),
                              .features =
                                  arena_strdup(&slurm->text, node->features),
                              .ngpus = node->ngpus,
                              .naming = node->naming,
                              .shards_per_gpu = node->shards_per_gpu,
                              .is_mps = node->is_mps,
                              .is_up = true};
    vec_add(&slurm->hosts, host);
    vec_add(&slurm->names, host.name);
}

static enum firn_status build(struct slurm *slurm, struct firn_error *err)
{
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; i < slurm->hosts.n && status == FIRN_OK; i++) {
        const struct slurm_host *host = &slurm->hosts.at[i];
        char memory[32];
        status = memory_of(slurm, host->type, memory, err);
        buf_printf(&slurm->spec, "%s1x%d:%s%s", i > 0 ? "," : "", host->ngpus,
                   host->type, memory);
    }
    if (status == FIRN_OK)
        status = firn_cluster_parse_spec(&slurm->cluster, slurm->spec.at, err);
    return status;
}

/* Finds out why jobs cannot share GPUs, if they cannot. */
static void find_sharing(struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->hosts.n && slurm->no_sharing.n == 0; i++) {
        const struct slurm_host *host = &slurm->hosts.at[i];
        if (host->naming != SLURM_SLOTS)
            buf_printf(&slurm->no_sharing,
                       "the GPUs of node %s do not each have a type "
                       "(gres/gpu %ss0, %ss1 ...): firn cannot choose the one "
                       "that two jobs share",
                       host->name, host->type, host->type);
        else if (host->is_mps && host->ngpus > 1)
            buf_printf(&slurm->no_sharing,
                       "Slurm gives out gres/mps of one GPU of a node at a "
                       "time, and node %s has %d GPUs: use gres/shard",
                       host->name, host->ngpus);
        else if (host->shards_per_gpu < slurm->cluster.jobs_per_gpu)
            buf_printf(&slurm->no_sharing,
                       "node %s has fewer than %d gres/shard or gres/mps for "
                       "each GPU",
                       host->name, slurm->cluster.jobs_per_gpu);
    }
    if (slurm->no_sharing.n > 0)
        slurm->cluster.jobs_per_gpu = 1;
}

/* Builds the cluster from scontrol's output, new or kept. */
static enum firn_status take_nodes(struct slurm *slurm,
                                   const struct firn_buf *text,
                                   struct firn_error *err)
{
    struct slurm_nodes nodes = {0};
    enum firn_status status = slurm_nodes_read(&nodes, bytes_of(text), err);
    for (size_t i = 0; i < nodes.at.n && status == FIRN_OK; i++) {
        const struct slurm_node *node = &nodes.at.at[i];
        if (slurm_is_mine(slurm, node))
            add_host(slurm, node);
        else if (node->is_odd && slurm_is_in_partition(slurm, node))
            log_warn("node %s is not used: %s", node->name, node->why);
    }
    if (status == FIRN_OK && slurm->hosts.n == 0)
        status = firn_fail(err, FIRN_ENOENT,
                           "Slurm's partition '%.100s' has no node with GPUs",
                           slurm->partition);
    if (status == FIRN_OK)
        status = build(slurm, err);
    if (status == FIRN_OK)
        find_sharing(slurm);
    if (status == FIRN_OK && !slurm->is_from_file)
        slurm_nodes_take(slurm, &nodes);
    slurm_nodes_release(&nodes);
    return status;
}

static enum firn_status ask_all(struct slurm *slurm,
                                const struct patience *patience,
                                struct firn_buf *nodes, struct firn_error *err)
{
    static const char *const version[] = {"sbatch", "--version", NULL};
    static const char *const show[] = {"scontrol", "-o",   "-d",
                                       "show",     "node", NULL};
    struct firn_buf text = {0};
    enum firn_status status =
        slurm_ask(slurm, version, patience->limit_s, &text, err);
    if (status == FIRN_OK)
        status = slurm_version_read(bytes_of(&text), &slurm->version, err);
    buf_release(&text);
    if (status == FIRN_OK)
        status = read_partitions(slurm, patience, err);
    return status == FIRN_OK ? ask(slurm, show, patience, nodes, err) : status;
}

static enum firn_status discover(struct slurm *slurm, struct firn_error *err)
{
    struct slurm_kept kept = {0};
    struct firn_buf nodes = {0};
    struct firn_error why = {0};
    struct patience patience = {slurm_answer_s, INFINITY};
    char asked[FIRN_TEXT_MAX];
    str_copy(asked, sizeof asked, slurm->partition);
    bool has_kept = slurm_kept_read(slurm, &kept);
    if (has_kept)
        patience = (struct patience){
            soon_s,
            clock_elapsed_s() + fmin(patience_s, slurm_settle_s(slurm))};
    enum firn_status status = ask_all(slurm, &patience, &nodes, &why);
    if (status == FIRN_EIO && has_kept) {
        slurm->is_from_file = true;
        slurm->version = kept.version;
        str_copy(slurm->partition, sizeof slurm->partition, kept.partition);
        status = take_nodes(slurm, &kept.nodes, err);
        slurm_went_away(slurm, "at the start", why.text);
        log_warn("starting with the %zu nodes of the last start",
                 slurm->hosts.n);
    } else if (status == FIRN_OK) {
        status = take_nodes(slurm, &nodes, err);
        if (status == FIRN_OK)
            slurm_kept_write(slurm, asked, &nodes);
    } else {
        firn_fail(err, status, "%s", why.text);
    }
    buf_release(&kept.nodes);
    buf_release(&nodes);
    return status;
}

/* Removes variables that change the behaviour of Slurm's commands. */
static void unset_variables(void)
{
    static const char *const heads[] = {"SBATCH_",        "SQUEUE_",
                                        "SCANCEL_",       "SCONTROL_",
                                        "SINFO_",         "SLURM_TIME_FORMAT=",
                                        "SLURM_CLUSTERS="};
    for (char **at = environ; at != NULL && *at != NULL;) {
        bool is_one = false;
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
            is_one = is_one || strncmp(*at, heads[i], strlen(heads[i])) == 0;
        if (!is_one) {
            at++;
            continue;
        }
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (unsetenv(name) != 0)
            at++;
        else
            at = environ;
    }
}

enum firn_status slurm_open(struct slurm *slurm, struct firn_error *err)
{
    unset_variables();
    if (strcmp(slurm->program, "/proc/self/exe") == 0) {
        ssize_t n = readlink("/proc/self/exe", slurm->program,
                             sizeof slurm->program - 1);
        slurm->program[n > 0 ? n : 0] = '\0';
    }
    if (slurm->program[0] != '/')
        return firn_fail(err, FIRN_EINVAL,
                         "slurm.program=%.200s is not an absolute path",
                         slurm->program);
    return discover(slurm, err);
}
