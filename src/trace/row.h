/* row.h - one row of a CSV file: columns by name, numbers checked.
 *
 * Shared by the formats. A format lists the columns it wants; row_open() finds
 * them in the header, row_next() cuts the next line into fields, and the
 * readers below take one field each or write the sentence that says what is
 * wrong with it: "'num_gpus' is -1: must be a whole number from 1 to 1048576".
 *
 * A field may be quoted ("" inside quotes is a quote), but must end on its own
 * line. Blank lines are passed over. A row has exactly as many fields as the
 * header, but columns without a name at its end may be missing. A UTF-8 mark at
 * the start of the file is passed over.
 */
#ifndef TRACE_ROW_H
#define TRACE_ROW_H
#include "base/lines.h"
#include <firn/trace.h>

enum {
    ROW_WANTS_MAX = 32,       /* columns a format may want */
    ROW_FIELDS_MAX = 64,      /* columns a file may have */
    ROW_GPUS_MAX = 1 << 20,   /* GPUs a job may ask for */
    ROW_NUMBER_MAX = 1 << 30, /* other whole numbers: batch, priority */
};

struct row {
    const char *const *wants; /* names, NULL at the end */
    int place[ROW_WANTS_MAX]; /* which field each is; -1: not in the file */
    int ncolumns;             /* of the header */
    int nnamed;               /* of those, up to the last that has a name */
    char comment;             /* lines that begin so are skipped; 0: none */
    int nfields;              /* of the row just read */
    char *fields[ROW_FIELDS_MAX];
};

/* Does the first line name all of `needs` and none of `lacks`? Both end with
 * NULL; `lacks` may be NULL. */
bool row_sniff(struct firn_bytes head, const char *const *needs,
               const char *const *lacks);

/* Reads the header. The first `nneeded` columns of `wants` must be in it.
 * `row` must be zeroed; `comment` may be set before. */
enum firn_status row_open(struct row *row, struct lines *in,
                          const char *const *wants, int nneeded,
                          struct firn_error *err);

/* The next row: FIRN_ROW_JOB when its fields can be read, else FIRN_ROW_BAD
 * or FIRN_ROW_END. Fields live until the next call. */
enum firn_row row_next(struct row *row, struct lines *in,
                       struct firn_error *err);

/* Does the file have that column? */
bool row_has(const struct row *row, int column);

/* The field as text; "" when the file lacks the column. */
const char *row_text(const struct row *row, int column);

/* A whole number from min to max. False with a sentence otherwise. */
bool row_int(const struct row *row, int column, int min, int max, int *out,
             struct firn_error *err);

/* A moment: a number from 0 to 1e15 in the file's unit. */
bool row_time(const struct row *row, int column, double *out,
              struct firn_error *err);

/* A length: above 0, to 1e15. */
bool row_span(const struct row *row, int column, double *out,
              struct firn_error *err);

/* Any number from min to max. */
bool row_number(const struct row *row, int column, double min, double max,
                double *out, struct firn_error *err);

/* A name that may not be empty. */
bool row_name(const struct row *row, int column, const char **out,
              struct firn_error *err);

/* A spec of defaults: empty texts, the simulation's restart cost, the line just
 * read. */
struct firn_job_spec row_spec(const struct lines *in);

/* A gang of that many GPUs, from a column. */
bool row_gang(const struct row *row, int column, struct firn_job_spec *out,
              struct firn_error *err);

/* The next row of a format that says four things of a gang, in seconds, in
 * these columns. The rest of `out` has defaults. */
struct row_basics {
    int name, submit, gpus, duration;
};
enum firn_row row_basics(struct row *row, struct lines *in,
                         const struct row_basics *at, struct firn_job_spec *out,
                         struct firn_error *err);

#endif
