/* jobfields.c - the table of job fields, and reading one value from text.
 *
 * A kind fixes how a text is read; the row adds bounds and words. Every failure
 * is a noun phrase ("a time such as 90s, ..."), so that the caller can put the
 * option or the file and line before it.
 *
 * Cost: a walk over some 40 rows to find a key.
 */
#include "core/jobfields.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "core/jobvalue.h"
#include <firn/cluster.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 4096 };

const struct job_field job_fields[JOB_NFIELDS] = {
#define JOB_FIELD(member, k, file_key, ...) \
    {.name = #member, .kind = JOB_##k, .key = file_key, __VA_ARGS__},
#include "core/jobfields.def"
};

static const struct {
    enum job_storage storage;
    const char *type;
} kinds[] = {
#define X(kind, ctype, storage, json) {JOB_AS_##storage, json},
    JOB_KIND_MAP(X)
#undef X
};

enum job_storage job_field_storage(const struct job_field *field)
{
    return kinds[field->kind].storage;
}

const char *job_field_type(const struct job_field *field)
{
    return kinds[field->kind].type;
}

const char *job_field_json(const struct job_field *field)
{
    return field->kind == JOB_COMMAND ? field->key : field->name;
}

size_t job_field_group(const struct job_field *field, const char **last)
{
    const char *dot = strchr(field->key, '.');
    *last = dot != NULL ? dot + 1 : field->key;
    return dot != NULL ? (size_t)(dot - field->key) : 0;
}

const struct job_field *job_field_find(const char *key)
{
    for (size_t i = 0; i < JOB_NFIELDS; i++)
        if (job_fields[i].key != NULL && strcmp(job_fields[i].key, key) == 0)
            return &job_fields[i];
    return NULL;
}

/* --- values --------------------------------------------------------------- */

static bool fail(char what[JOB_WHAT_MAX], const char *text)
{
    str_copy(what, JOB_WHAT_MAX, text);
    return false;
}

static bool set_text(char **at, const char *text)
{
    if (at != NULL) {
        mem_free(*at);
        *at = mem_strdup(text);
    }
    return true;
}

static bool read_choice(const struct job_field *field, const char *text,
                        char **member, char *what)
{
    size_t n = strlen(text);
    for (const char *at = field->words; at != NULL;) {
        size_t m = strcspn(at, "|");
        if (n == m && memcmp(at, text, n) == 0)
            return set_text(member, text);
        at = at[m] == '|' ? at + m + 1 : NULL;
    }
    snprintf(what, JOB_WHAT_MAX, "one of %s", field->words);
    return false;
}

/* Adds a word to a list with `between` between its words. */
static bool add_word(char **member, const char *text, char between)
{
    struct firn_buf all = {0};
    if (member == NULL)
        return true;
    if (*member != NULL && **member != '\0')
        buf_printf(&all, "%s%c", *member, between);
    buf_puts(&all, text);
    mem_free(*member);
    *member = all.at;
    return true;
}

/* One of the field's words, each of them once; `none` stands alone. */
static bool read_word(const struct job_field *field, const char *text,
                      char **member, char *what)
{
    const char *before = member != NULL && *member != NULL ? *member : "";
    bool is_none = strcmp(text, "none") == 0;
    if (!read_choice(field, text, NULL, what))
        return false;
    if (before[0] != '\0' && (is_none || strcmp(before, "none") == 0))
        return fail(what, "'none' or a list of words, not both");
    for (const char *at = before; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (strlen(text) == n && memcmp(at, text, n) == 0)
            return fail(what, "a list that has each word once");
        at += n + (at[n] == ',');
    }
    return add_word(member, text, ',');
}

static bool read_type(const char *text, char **member, char *what)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+";
    size_t n = strlen(text);
    if (n == 0 || n >= FIRN_NAME_MAX || strspn(text, good) != n)
        return fail(what, "the name of a GPU type, such as a100");
    return add_word(member, text, '|');
}

/* member[0]: failure, member[1]: lost. */
static bool read_event(const char *text, bool *member, char *what)
{
    static const char *const names[] = {"failure", "lost"};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(text, names[i]) == 0) {
            if (member != NULL)
                member[i] = true;
            return true;
        }
    return fail(what, "a list of 'failure' and 'lost'");
}

static bool read_whole(const struct job_field *field, const char *text,
                       void *member, char *what)
{
    bool is_count = field->kind == JOB_COUNT;
    long least = is_count ? 1 : (long)field->least, number = 0;
    long most = is_count ? 1L << 50 : (long)field->most;
    if (!str_int(text, least, most, &number)) {
        if (is_count)
            return fail(what, "a whole number from 1 on");
        snprintf(what, JOB_WHAT_MAX, "a whole number from %ld to %ld", least,
                 most);
        return false;
    }
    if (member != NULL && is_count)
        *(uint64_t *)member = (uint64_t)number;
    else if (member != NULL)
        *(int *)member = (int)number;
    return true;
}

static bool read_real(enum job_kind kind, const char *text, double *member,
                      char *what)
{
    double number = 0;
    const char *wrong = NULL;
    if (kind == JOB_TIME)
        wrong = value_time_s(text, &number);
    else if (kind == JOB_DATE)
        wrong = value_date_s(text, &number);
    else if (kind == JOB_GIB)
        wrong = value_gib(text, &number);
    else if (kind == JOB_SHARE)
        wrong = value_share(text, &number);
    else if (!str_double(text, &number) || number == 0)
        wrong = "a number other than 0";
    if (wrong != NULL)
        return fail(what, wrong);
    if (member != NULL)
        *member = number;
    return true;
}

static bool read_text(const struct job_field *field, const char *text,
                      char **member, char *what)
{
    const char *wrong = NULL;
    if (field->kind == JOB_NAME)
        wrong = value_name(text);
    else if (strlen(text) > TEXT_MAX || text[0] == '\0')
        wrong = "a text of 1 to 4096 bytes";
    else if (field->kind == JOB_PATH && text[0] != '/')
        wrong = "an absolute path, such as /data";
    return wrong != NULL ? fail(what, wrong) : set_text(member, text);
}

bool job_field_read(const struct job_field *field, const char *text,
                    void *member, char what[JOB_WHAT_MAX])
{
    int low = 0, high = 0;
    char **words = NULL;
    const char *wrong = NULL;
    switch (field->kind) {
    case JOB_NAME:
    case JOB_TEXT:
    case JOB_PATH:
    case JOB_MODEL:
        return read_text(field, text, member, what);
    case JOB_CONFIG: /* a path in an option; firnd takes the text alone */
        if (text[0] == '\0' || strlen(text) > JOB_CONFIG_MAX)
            return fail(what, "a config.json of at most 64 KiB");
        return set_text(member, text);
    case JOB_CHOICE:
        return read_choice(field, text, member, what);
    case JOB_TYPES:
        return read_type(text, member, what);
    case JOB_WORDS:
        return read_word(field, text, member, what);
    case JOB_EVENTS:
        return read_event(text, member, what);
    case JOB_WHOLE:
    case JOB_COUNT:
        return read_whole(field, text, member, what);
    case JOB_RANGE:
        wrong = value_range(text, (int)field->most, &low, &high);
        if (wrong == NULL && member != NULL) {
            ((int *)member)[0] = low;
            ((int *)member)[1] = high;
        }
        return wrong == NULL || fail(what, wrong);
    case JOB_YES: /* an option without a value means "allowed" */
        if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0) {
            if (member != NULL)
                *(bool *)member = text[0] == 'y';
            return true;
        }
        if (strcmp(text, "allowed") != 0 && strcmp(text, "never") != 0)
            return fail(what, "yes or no");
        if (member != NULL)
            *(bool *)member = text[0] == 'a';
        return true;
    case JOB_ALLOWED:
        if (strcmp(text, "allowed") != 0 && strcmp(text, "never") != 0)
            return fail(what, "allowed or never");
        if (member != NULL)
            *(bool *)member = text[0] == 'a';
        return true;
    case JOB_COMMAND:
        wrong = value_words(text, &words);
        if (wrong != NULL)
            return fail(what, wrong);
        if (member == NULL)
            value_words_free(words);
        else
            *(char ***)member = words;
        return true;
    case JOB_ENV:
        return fail(what, "a mapping of names to values");
    case JOB_NUMBER:
    case JOB_TIME:
    case JOB_DATE:
    case JOB_GIB:
    case JOB_SHARE:
        return read_real(field->kind, text, member, what);
    }
    return fail(what, "a value");
}

/* --- environment ---------------------------------------------------------- */

/* Set by firn for each attempt; where the trainer library is, the user may
 * say. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {
        "RANK",        "WORLD_SIZE",  "LOCAL_RANK",          "LOCAL_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i], name) == 0)
            return true;
    return strncmp(name, "FIRN_", 5) == 0 &&
           strcmp(name, "FIRN_TRAIN_LIB") != 0;
}

const char *job_env_wrong(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz_0123456789";
    if (name[0] == '\0' || strspn(name, good) != strlen(name) ||
        strspn(name, "0123456789") > 0)
        return "the name of a variable is letters, digits and _, and does not "
               "begin with a digit";
    return is_ours(name) ? "firn sets this variable itself" : NULL;
}
