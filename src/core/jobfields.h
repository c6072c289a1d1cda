/* jobfields.h - the table of job fields, and reading one value from text.
 *
 * jobfields.def has a row for each field. The daemon makes struct live_ask, the
 * keys of job files, the columns and the JSON of it; the command line makes
 * options and pages. Both read a value by job_field_read(), so that an option
 * and a job file accept the same texts.
 */
#ifndef CORE_JOBFIELDS_H
#define CORE_JOBFIELDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kind, C type of the member, storage class, type in openapi.yaml. */
#define JOB_KIND_MAP(X)                  \
    X(NAME, char *, TEXT, "string")      \
    X(TEXT, char *, TEXT, "string")      \
    X(PATH, char *, TEXT, "string")      \
    X(CHOICE, char *, TEXT, "string")    \
    X(TYPES, char *, TEXT, "string")     \
    X(WORDS, char *, TEXT, "string")     \
    X(MODEL, char *, TEXT, "object")     \
    X(CONFIG, char *, TEXT, "object")    \
    X(COMMAND, char **, LIST, "array")   \
    X(ENV, char **, LIST, "array")       \
    X(WHOLE, int, INT, "integer")        \
    X(RANGE, int, INT, "integer")        \
    X(COUNT, uint64_t, COUNT, "integer") \
    X(ALLOWED, bool, BOOL, "boolean")    \
    X(EVENTS, bool, BOOL, "boolean")     \
    X(YES, bool, BOOL, "boolean")        \
    X(NUMBER, double, REAL, "number")    \
    X(TIME, double, REAL, "number")      \
    X(DATE, double, REAL, "number")      \
    X(GIB, double, REAL, "number")       \
    X(SHARE, double, REAL, "number")

enum job_kind {
#define X(kind, ctype, storage, json) JOB_##kind,
    JOB_KIND_MAP(X)
#undef X
};

/* job_c_NAME, ... : the C type of a member of that kind. */
#define X(kind, ctype, storage, json) typedef ctype job_c_##kind;
JOB_KIND_MAP(X)
#undef X

/* What the member is in memory; lists end with NULL. */
enum job_storage {
    JOB_AS_TEXT,
    JOB_AS_LIST,
    JOB_AS_INT,
    JOB_AS_COUNT,
    JOB_AS_BOOL,
    JOB_AS_REAL
};

/* JOB_STORAGE_NAME, ... : the same by kind, for tables. */
enum {
#define X(kind, ctype, storage, json) JOB_STORAGE_##kind = JOB_AS_##storage,
    JOB_KIND_MAP(X)
#undef X
};

enum {
    JOB_IN_LIST = 1, /* in lists of jobs; all others are in `ask` of one job */
    JOB_CHANGES = 2, /* is written to disk again after the submit */
    JOB_PATCH = 4,   /* PATCH /jobs/ID may change it */
    JOB_PRIVATE = 8, /* shown to the job's user and to operators only */
    JOB_WHAT_MAX = 128,
    JOB_NAME_MAX = 64,       /* bytes of a name of a job or queue */
    JOB_CONFIG_MAX = 1 << 16 /* bytes of a config.json */
};

struct job_field {
    const char *name; /* of the member, the column and the JSON key */
    enum job_kind kind;
    const char *key;     /* in a job file: "gpus", "retry.max"; NULL: none */
    int64_t least, most; /* of WHOLE, RANGE */
    const char *words;   /* of CHOICE, WORDS: "a|b" */
    /* Values as text: if the key is not given; if its group is and it is not.
     * NULL: 0 or "". */
    const char *standard, *in_group;
    unsigned where; /* JOB_IN_LIST, ... */
    int since;      /* schema step that adds its column; 0: the first */
    /* Option of the command line, without dashes; NULL: none. Without metavar
     * it takes no value and means "allowed"; `contrary` means "never".
     * `group_flag` asks for the group with its defaults. */
    const char *flag;
    char letter;
    const char *metavar, *contrary, *group_flag;
    const char *help, *contrary_help, *group_help;
    const char *flag_note; /* behind the help of the option */
    const char *api_help;  /* of the JSON key, where `help` does not fit it */
};

/* JOB_FIELD_name, ... : positions in job_fields[]. */
enum job_field_id {
#define JOB_FIELD(member, ...) JOB_FIELD_##member,
#include "core/jobfields.def"
    JOB_NFIELDS
};

extern const struct job_field job_fields[JOB_NFIELDS];

enum job_storage job_field_storage(const struct job_field *field);
/* "string", "integer", ... of openapi.yaml. */
const char *job_field_type(const struct job_field *field);
/* The key in the API's JSON: the name; of the command, `run`. */
const char *job_field_json(const struct job_field *field);
/* Splits "retry.max": the length of "retry", 0 for a key without a group; and
 * the last part. The field has a key. */
size_t job_field_group(const struct job_field *field, const char **last);
/* The field of that key; NULL: there is none. */
const struct job_field *job_field_find(const char *key);

/* Reads a value from text into the member at `member` (NULL: only checks it);
 * texts that it replaces are freed. TYPES, WORDS and EVENTS take one name at a
 * time and add it; RANGE and EVENTS also write the member behind theirs. ENV
 * and MODEL are not read by it. False: `what` says what the text should have
 * been: "a whole number from 0 to 100". */
bool job_field_read(const struct job_field *field, const char *text,
                    void *member, char what[JOB_WHAT_MAX]);

/* NULL: a job may set this variable; else what is wrong with its name. */
const char *job_env_wrong(const char *name);

#endif
