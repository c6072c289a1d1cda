/* option.h - one setting of a policy or engine, in one record.
 *
 * Name, type, default, range and help stand together, and `offset` says where
 * the value goes in the plug-in's state. Parsing, range checks, `firn
 * policies` and the docs all read this one record, so they cannot disagree.
 */
#ifndef FIRN_OPTION_H
#define FIRN_OPTION_H
#include <firn/status.h>
#include <stddef.h>

FIRN_C_BEGIN

struct firn_buf;

enum firn_option_type {
    FIRN_OPTION_BOOL,   /* bool: 0/1, no/yes, off/on, false/true */
    FIRN_OPTION_INT,    /* int */
    FIRN_OPTION_DOUBLE, /* double */
    FIRN_OPTION_CHOICE, /* int: index into `choices` */
    FIRN_OPTION_LIST,   /* struct firn_list: ascending positive doubles */
    FIRN_OPTION_TEXT,   /* char[FIRN_TEXT_MAX]: no control characters */
};

enum { FIRN_LIST_MAX = 8, FIRN_TEXT_MAX = 1024 };

/* A short list of numbers, such as queue thresholds. */
struct firn_list {
    int n;
    double at[FIRN_LIST_MAX];
};

struct firn_option {
    const char *name; /* [a-z0-9-]+; NULL ends the table */
    enum firn_option_type type;
    const char *fallback;       /* the default, as the user would type it */
    double min, max;            /* INT and DOUBLE (and each of a LIST) */
    const char *const *choices; /* CHOICE: ends with NULL */
    const char *help;           /* one line */
    size_t offset;              /* where the value goes in the state */
};

/* Records of a table, in short. `member` of `type`, the plug-in's state, gets
 * the value: FIRN_NUMBER(struct mine, interval_s, "interval", "60", 1, 1e9,
 * "seconds between two rounds"). A table ends with FIRN_OPTIONS_END. */
#define FIRN_BOOL(type, member, name, fallback, help)       \
    {                                                       \
        name, FIRN_OPTION_BOOL, fallback, 0, 0, NULL, help, \
            offsetof(type, member)                          \
    }
#define FIRN_INT(type, member, name, fallback, min, max, help) \
    {                                                          \
        name, FIRN_OPTION_INT, fallback, min, max, NULL, help, \
            offsetof(type, member)                             \
    }
#define FIRN_NUMBER(type, member, name, fallback, min, max, help) \
    {                                                             \
        name, FIRN_OPTION_DOUBLE, fallback, min, max, NULL, help, \
            offsetof(type, member)                                \
    }
#define FIRN_CHOICE(type, member, name, fallback, choices, help) \
    {                                                            \
        name, FIRN_OPTION_CHOICE, fallback, 0, 0, choices, help, \
            offsetof(type, member)                               \
    }
#define FIRN_LIST(type, member, name, fallback, min, max, help) \
    {                                                           \
        name, FIRN_OPTION_LIST, fallback, min, max, NULL, help, \
            offsetof(type, member)                              \
    }
#define FIRN_TEXT(type, member, name, fallback, help)       \
    {                                                       \
        name, FIRN_OPTION_TEXT, fallback, 0, 0, NULL, help, \
            offsetof(type, member)                          \
    }
#define FIRN_OPTIONS_END                                  \
    {                                                     \
        NULL, FIRN_OPTION_BOOL, NULL, 0, 0, NULL, NULL, 0 \
    }

/* Fills every option of `table` (NULL for none) in `state` with its default.
 * A default that does not parse is a bug. */
FIRN_API void firn_options_default(const struct firn_option *table,
                                   void *state);

/* Sets one option from text. FIRN_ENOENT for an unknown name, with the
 * nearest known one; FIRN_EINVAL for a bad or out-of-range value. `owner` is
 * the plug-in's name, for the sentence. */
FIRN_API enum firn_status firn_option_set(const struct firn_option *table,
                                          void *state, const char *owner,
                                          const char *name, const char *value,
                                          struct firn_error *err);

/* "number >= 0" and the like, for help pages; appended to `out`. */
FIRN_API void firn_option_describe(const struct firn_option *option,
                                   struct firn_buf *out);

FIRN_C_END

#endif
