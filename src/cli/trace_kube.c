/* trace_kube.c - pods of Kubernetes as jobs.
 *
 * Reads 'kubectl get pods -A -o json'. A pod that asks for GPUs and has ended
 * is a job: submitted at metadata.creationTimestamp, run from status.startTime,
 * from when on it holds its GPUs, to the end of its last container, on the GPUs
 * of all its containers. The namespace becomes the group.
 *
 * (1) GPUs are resources whose name ends with "/gpu" (nvidia.com/gpu,
 *     amd.com/gpu), or with "/gpu.shared": then the job may share. Limits
 *     count; requests do where a container has none. Init containers do not.
 * (2) The workers of one training are one job: pods of a namespace with the
 *     same label of a training operator (`gangs`) that ran at the same time.
 *     Pods that ran after one another, such as retries, are jobs of their own.
 * (3) Pods without GPUs, or that have not ended, are counted and left out.
 * (4) The text is read once, part by part; an unknown member costs nothing.
 */
#include "cli/trace_kube.h"
#include "base/buf.h"
#include "base/jsonread.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 128 };

/* Labels that the pods of one training have in common. */
static const char *const gangs[] = {"training.kubeflow.org/job-name",
                                    "volcano.sh/job-name",
                                    "pytorch-job-name",
                                    "mpi-job-name",
                                    "ray.io/cluster",
                                    "jobset.sigs.k8s.io/jobset-name"};

struct pod {
    const char *name, *space, *gang; /* gang: NULL if it is alone */
    double submit_s, start_s, end_s; /* NaN: not there */
    double limit, request;           /* GPUs */
    bool may_share, is_running;
    long number;
};

struct kube {
    struct jsonread in;
    struct arena *arena;
    char keys[JSONREAD_DEPTH + 1][KEY_MAX]; /* of the levels that are open */
    struct pod pod;
    VEC(struct pod) pods;
    long npods;
    struct trace_import *report;
};

/* The text of a string or number, without quotes. */
static void take_text(const struct jsonread *in, char *out, size_t max)
{
    struct firn_bytes token = in->token;
    bool is_string = token.n >= 2 && token.at[0] == '"';
    size_t n = is_string ? token.n - 2 : token.n;
    n = n < max ? n : max - 1;
    memcpy(out, token.at + is_string, n);
    out[n] = '\0';
}

/* Is the value at PATH, below a pod? The path's parts are divided by blanks;
 * "*" is any key. The value's level is one below the pod's. */
static bool is_at(const struct kube *kube, unsigned depth, const char *path)
{
    enum { POD_DEPTH = 3 }; /* {items: [{ */
    unsigned level = POD_DEPTH;
    for (; *path != '\0'; level++) {
        size_t n = strcspn(path, " ");
        if (level > depth)
            return false;
        const char *key = kube->keys[level];
        if (*path != '*' && (strlen(key) != n || strncmp(key, path, n) != 0))
            return false;
        path += n + (path[n] == ' ');
    }
    return level == depth + 1;
}

/* A resource of a container: is it GPUs? */
static void take_resource(struct kube *kube, const char *key, const char *text,
                          double *sum)
{
    double value;
    const char *kind = strrchr(key, '/');
    if (kind == NULL || !str_double(text, &value) || !(value > 0))
        return;
    bool is_shared = strcmp(kind, "/gpu.shared") == 0;
    if (!is_shared && strcmp(kind, "/gpu") != 0)
        return;
    *sum += value;
    kube->pod.may_share = kube->pod.may_share || is_shared;
}

static void take_time(double *at_s, const char *text, bool is_latest)
{
    double s;
    if (!trace_import_moment(text, &s))
        return;
    if (isnan(*at_s) || (is_latest ? s > *at_s : s < *at_s))
        *at_s = s;
}

/* A string or number at the present place. */
static void take_value(struct kube *kube, unsigned depth)
{
    struct pod *pod = &kube->pod;
    const char *key = kube->keys[depth];
    char text[KEY_MAX];
    take_text(&kube->in, text, sizeof text);
    if (is_at(kube, depth, "metadata name"))
        pod->name = arena_strdup(kube->arena, text);
    else if (is_at(kube, depth, "metadata namespace"))
        pod->space = arena_strdup(kube->arena, text);
    else if (is_at(kube, depth, "metadata creationTimestamp"))
        take_time(&pod->submit_s, text, false);
    else if (is_at(kube, depth, "metadata labels *"))
        for (size_t i = 0; i < sizeof gangs / sizeof *gangs; i++) {
            if (strcmp(key, gangs[i]) == 0)
                pod->gang = arena_strdup(kube->arena, text);
        }
    else if (is_at(kube, depth, "spec containers [] resources limits *"))
        take_resource(kube, key, text, &pod->limit);
    else if (is_at(kube, depth, "spec containers [] resources requests *"))
        take_resource(kube, key, text, &pod->request);
    else if (is_at(kube, depth,
                   "status containerStatuses [] state terminated "
                   "finishedAt"))
        take_time(&pod->end_s, text, true);
    else if (is_at(kube, depth,
                   "status containerStatuses [] state running startedAt"))
        pod->is_running = true;
    else if (is_at(kube, depth, "status startTime") ||
             is_at(kube, depth,
                   "status containerStatuses [] state terminated startedAt"))
        take_time(&pod->start_s, text, false);
}

static void end_pod(struct kube *kube)
{
    struct pod *pod = &kube->pod;
    bool has_gpus = pod->limit > 0 || pod->request > 0;
    if (!has_gpus || pod->is_running || isnan(pod->end_s) ||
        isnan(pod->start_s) || !(pod->end_s > pod->start_s)) {
        kube->report->not_gpu++; /* (3) */
        return;
    }
    if (isnan(pod->submit_s) || pod->name[0] == '\0') {
        if (kube->report->bad++ == 0)
            snprintf(kube->report->first, sizeof kube->report->first,
                     "pod %ld has no name or creationTimestamp", pod->number);
        return;
    }
    vec_add(&kube->pods, *pod);
}

/* Walks over the whole text. */
static void walk(struct kube *kube)
{
    struct jsonread *in = &kube->in;
    enum jsonread_event event;
    while ((event = jsonread_next(in)) != JSONREAD_END &&
           event != JSONREAD_FAILED) {
        unsigned depth = in->depth;
        if (event == JSONREAD_KEY) {
            take_text(in, kube->keys[depth], KEY_MAX);
        } else if (event == JSONREAD_OPEN) {
            bool is_list = in->token.at[0] == '[';
            snprintf(kube->keys[depth], KEY_MAX, "%s", is_list ? "[]" : "");
            if (!is_list && depth == 3 && strcmp(kube->keys[1], "items") == 0) {
                kube->pod = (struct pod){.name = "",
                                         .space = "",
                                         .submit_s = NAN,
                                         .start_s = NAN,
                                         .end_s = NAN,
                                         .number = ++kube->npods};
            }
        } else if (event == JSONREAD_CLOSE) {
            if (depth == 2 && in->token.at[0] == '}' &&
                strcmp(kube->keys[1], "items") == 0)
                end_pod(kube);
        } else if (kube->npods > 0 && strcmp(kube->keys[1], "items") == 0) {
            take_value(kube, depth);
        }
    }
}

/* --- jobs ----------------------------------------------------------------- */

static int by_gang(const void *one, const void *two)
{
    const struct pod *a = one, *b = two;
    int order = strcmp(a->space, b->space);
    if (order == 0)
        order = strcmp(a->gang ? a->gang : "", b->gang ? b->gang : "");
    if (order != 0)
        return order;
    if (a->start_s != b->start_s)
        return a->start_s < b->start_s ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static double gpus_of(const struct pod *pod)
{
    return pod->limit > 0 ? pod->limit : pod->request;
}

/* Adds the workers that ran together with the first pod to it; returns how many
 * pods the job has. */
static size_t join(struct pod *first, const struct pod *pods, size_t n)
{
    size_t count = 1;
    double gpus = gpus_of(first);
    while (first->gang != NULL && count < n && pods[count].gang != NULL &&
           strcmp(pods[count].gang, first->gang) == 0 &&
           strcmp(pods[count].space, first->space) == 0 &&
           pods[count].start_s < first->end_s) { /* (2) */
        const struct pod *pod = &pods[count++];
        gpus += gpus_of(pod);
        first->submit_s = fmin(first->submit_s, pod->submit_s);
        first->end_s = fmax(first->end_s, pod->end_s);
        first->may_share = first->may_share || pod->may_share;
    }
    first->limit = gpus;
    if (count > 1)
        first->name = first->gang;
    return count;
}

static void add_jobs(struct kube *kube, struct trace_import_jobs *jobs)
{
    size_t n = kube->pods.n;
    if (n > 1)
        qsort(kube->pods.at, n, sizeof *kube->pods.at, by_gang);
    for (size_t i = 0; i < n;) {
        struct pod first = kube->pods.at[i];
        i += join(&first, &kube->pods.at[i], n - i);
        struct trace_import_job job = {.name = first.name,
                                       .user = first.space,
                                       .app = "",
                                       .line = first.number,
                                       .submit_s = first.submit_s,
                                       .duration_s =
                                           first.end_s - first.start_s,
                                       .gpus = (int)ceil(first.limit),
                                       .may_share = first.may_share};
        vec_add(jobs, job);
        kube->report->jobs++;
    }
}

enum firn_status trace_kube_read(struct firn_bytes text, struct arena *arena,
                                 struct trace_import_jobs *jobs,
                                 struct trace_import *report,
                                 struct firn_error *err)
{
    struct kube *kube = mem_new(1, sizeof *kube);
    kube->arena = arena;
    kube->report = report;
    jsonread_init(&kube->in, text.at, text.n, err);
    walk(kube);
    enum firn_status status = kube->in.status;
    if (status == FIRN_OK && kube->npods == 0)
        status = firn_fail(err, FIRN_EDATA,
                           "no list of pods: make the file by 'kubectl get "
                           "pods -A -o json'");
    if (status == FIRN_OK)
        add_jobs(kube, jobs);
    vec_release(&kube->pods);
    mem_free(kube);
    return status;
}
