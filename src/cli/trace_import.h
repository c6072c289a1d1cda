/* trace_import.h - tables of other programs as traces: `firn trace convert
 * --from sacct`, `--from kube` and `--map`.
 */
#ifndef CLI_TRACE_IMPORT_H
#define CLI_TRACE_IMPORT_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

struct trace_import {
    long jobs;       /* written */
    long not_gpu;    /* rows without GPUs, or without a run */
    long bad;        /* rows that cannot be understood */
    char first[256]; /* the first of these, with its line */
};

/* A job that was read. */
struct trace_import_job {
    double submit_s, duration_s;
    long line; /* or the number of the pod */
    int gpus;
    bool may_share;
    const char *name, *user, *app;
};

struct trace_import_jobs {
    struct trace_import_job *at;
    size_t n, cap; /* as VEC (base/vec.h) */
};

/* Appends the jobs of a table as firn's own CSV, by submission time, which
 * begins at 0. `from` is "sacct", "kube" or NULL; `map` is
 * "submit=COLUMN,gpus=COLUMN,
 * ..." or NULL, and goes before `from`. With both NULL the columns are guessed.
 * FIRN_EINVAL names the columns there are and a mapping that would work. */
enum firn_status trace_import(const char *path, const char *from,
                              const char *map, struct firn_buf *out,
                              struct trace_import *report,
                              struct firn_error *err);

/* The zone of times that name none, for the whole process: "Europe/Berlin", or
 * "local" for the system's. False: there is no such zone. UTC before the first
 * call. */
bool trace_import_zone(const char *zone);
/* Appends a mapping for the columns of a table, as far as their names tell.
 * False: a needed field has no column. */
bool trace_import_suggest(const char *path, struct firn_buf *map);

/* Seconds of "1-02:03:04", "02:03:04", "03:04", "90" or "1.5h". */
bool trace_import_span(const char *text, double *out_s);
/* Seconds since 1970 of "2026-11-17T10:55:00", with " " for "T", and with "Z"
 * or
 * "+02:00" behind; or of a number. */
bool trace_import_moment(const char *text, double *out_s);
/* GPUs of "4", "gpu:2", "gpu:a100:2" or, with the key "gres/gpu", of
 * "cpu=8,gres/gpu=2", or of all types in "gres/gpu:a100=2,gres/gpu:t4=1" where
 * there is no sum. 0: none. */
bool trace_import_gpus(const char *text, const char *key, int *out);

#endif
