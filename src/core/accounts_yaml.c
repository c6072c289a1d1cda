/* accounts_yaml.c - users, projects, shares and quotas from a YAML file.
 *
 *     half-life: 7d            # usage of that long ago counts half
 *     window: 7d               # of quotas in GPU-hours
 *     slice: 1h                # a running job is not stopped earlier
 *     past: 1                  # weight of past usage beside GPUs held now
 *     projects:
 *       - name: vision
 *         share: 3
 *         gpus: 8              # held at one time
 *         gpu-hours: 500       # in a window
 *         queued: 100          # unfinished jobs
 *         disk: 2TiB
 *         borrow: yes          # idle GPUs beyond gpus and gpu-hours
 *         members: ann, bob
 *     users:
 *       - name: ann
 *         share: 2
 *         gpus: 4
 *       - name: '*'            # users that are not named
 *         queued: 50
 *
 * Read in two passes as cluster files are (base/yamltext.h). Every key may be
 * left out. An entry that is wrong is named by its line; nothing is half read.
 */
#include "base/buf.h"
#include "base/files.h"
#include "base/str.h"
#include "base/yamltext.h"
#include "core/accounts.h"
#include "core/jobvalue.h"
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 3, ENTRIES_MAX = 10000, VALUE_MAX = 64, LIST_MAX = 65536 };

struct said_account {
    char *name, *share, *gpus, *gpu_hours, *queued, *disk, *borrow, *members;
};

struct said {
    char *half_life, *window, *slice, *past;
    struct said_account *projects, *users;
    unsigned projects_count, users_count;
};

enum {
    MUST = CYAML_FLAG_POINTER,
    MAY = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
};

#define TEXT(key, flag, member, most) \
    CYAML_FIELD_STRING_PTR(key, flag, struct said_account, member, 0, (most))

static const cyaml_schema_field_t account_fields[] = {
    TEXT("name", MUST, name, VALUE_MAX),
    TEXT("share", MAY, share, VALUE_MAX),
    TEXT("gpus", MAY, gpus, VALUE_MAX),
    TEXT("gpu-hours", MAY, gpu_hours, VALUE_MAX),
    TEXT("queued", MAY, queued, VALUE_MAX),
    TEXT("disk", MAY, disk, VALUE_MAX),
    TEXT("borrow", MAY, borrow, VALUE_MAX),
    TEXT("members", MAY, members, LIST_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t account_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct said_account,
                        account_fields),
};

static const cyaml_schema_field_t top_fields[] = {
    CYAML_FIELD_STRING_PTR("half-life", MAY, struct said, half_life, 0,
                           VALUE_MAX),
    CYAML_FIELD_STRING_PTR("window", MAY, struct said, window, 0, VALUE_MAX),
    CYAML_FIELD_STRING_PTR("slice", MAY, struct said, slice, 0, VALUE_MAX),
    CYAML_FIELD_STRING_PTR("past", MAY, struct said, past, 0, VALUE_MAX),
    CYAML_FIELD_SEQUENCE("projects", MAY, struct said, projects, &account_entry,
                         0, ENTRIES_MAX),
    CYAML_FIELD_SEQUENCE("users", MAY, struct said, users, &account_entry, 0,
                         ENTRIES_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t top = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct said, top_fields),
};

/* --- pass 1: lines -------------------------------------------------------- */

struct survey {
    struct yaml_words words;
    VEC(long) entries; /* line of each entry of a list */
    int depth, ndocuments;
};

/* Why this event cannot be in such a file, or NULL. */
static const char *judge(void *arg, const yaml_event_t *event)
{
    struct survey *s = arg;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        yaml_note(&s->words, event);
        return NULL;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        if (s->depth == 0 && event->type == YAML_SEQUENCE_START_EVENT)
            return "a list, where 'projects: ...' or 'users: ...' should be";
        if (s->depth == 2)
            vec_add(&s->entries, (long)event->start_mark.line + 1);
        return ++s->depth > DEPTH_MAX ? "nested too deeply" : NULL;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        s->depth--;
        return NULL;
    case YAML_ALIAS_EVENT:
        return "aliases are not used in files of shares";
    case YAML_DOCUMENT_START_EVENT:
        return ++s->ndocuments > 1 ? "a second document" : NULL;
    default:
        return NULL;
    }
}

/* --- meaning -------------------------------------------------------------- */

static enum firn_status wrong(const char *key, const char *text,
                              const char *should, struct firn_error *err)
{
    return firn_fail(err, FIRN_EINVAL, "'%s' is '%.60s', not %s", key, text,
                     should);
}

static enum firn_status read_real(const char *key, const char *text,
                                  double least, double *out,
                                  struct firn_error *err)
{
    char should[64];
    double value = 0;
    if (text == NULL)
        return FIRN_OK;
    snprintf(should, sizeof should, "a number from %g to 1e9", least);
    if (!str_double(text, &value) || value < least || value > 1e9)
        return wrong(key, text, should, err);
    *out = value;
    return FIRN_OK;
}

static enum firn_status read_count(const char *key, const char *text, int *out,
                                   struct firn_error *err)
{
    long value = 0;
    if (text == NULL)
        return FIRN_OK;
    if (!str_int(text, 1, 1000000000, &value))
        return wrong(key, text, "a whole number from 1 to 1e9", err);
    *out = (int)value;
    return FIRN_OK;
}

static enum firn_status read_time(const char *key, const char *text,
                                  double least_s, double *out,
                                  struct firn_error *err)
{
    if (text == NULL)
        return FIRN_OK;
    const char *should = value_time_s(text, out);
    if (should == NULL && *out < least_s)
        should = "a minute or more";
    return should != NULL ? wrong(key, text, should, err) : FIRN_OK;
}

static enum firn_status read_limits(const struct said_account *from,
                                    struct account_limits *out,
                                    struct firn_error *err)
{
    FIRN_TRY(read_real("share", from->share, 1e-6, &out->share, err));
    FIRN_TRY(read_count("gpus", from->gpus, &out->gpus, err));
    FIRN_TRY(
        read_real("gpu-hours", from->gpu_hours, 1e-6, &out->gpu_hours, err));
    FIRN_TRY(read_count("queued", from->queued, &out->queued, err));
    if (from->disk != NULL) {
        const char *should = value_gib(from->disk, &out->disk_gib);
        if (should != NULL)
            return wrong("disk", from->disk, should, err);
    }
    if (from->borrow != NULL) {
        bool is_yes = strcmp(from->borrow, "yes") == 0;
        if (!is_yes && strcmp(from->borrow, "no") != 0)
            return wrong("borrow", from->borrow, "yes or no", err);
        out->borrows = is_yes;
    }
    return FIRN_OK;
}

/* Adds "user\nproject" for each of "a, b c". */
static void read_members(struct accounts *accounts, const char *list,
                         const char *project)
{
    static const char gaps[] = ", \t\n";
    vec_add(&accounts->closed,
            (const char *)arena_strdup(&accounts->text, project));
    for (const char *at = list + strspn(list, gaps); *at != '\0';) {
        size_t n = strcspn(at, gaps), size = n + strlen(project) + 2;
        char *pair = arena_alloc(&accounts->text, size);
        snprintf(pair, size, "%.*s\n%s", (int)n, at, project);
        vec_add(&accounts->members, (const char *)pair);
        at += n;
        at += strspn(at, gaps);
    }
}

static bool has_account(const struct accounts *accounts, enum account_kind kind,
                        const char *name)
{
    for (size_t i = 0; i < accounts->list.n; i++)
        if (accounts->list.at[i].kind == kind &&
            strcmp(accounts->list.at[i].name, name) == 0)
            return true;
    return false;
}

static enum firn_status read_entry(struct accounts *accounts,
                                   const struct said_account *from,
                                   enum account_kind kind,
                                   struct firn_error *err)
{
    bool is_user = kind == ACCOUNT_USER;
    struct account_limits limits =
        is_user ? accounts->anyone
                : (struct account_limits){.share = 1, .borrows = true};
    FIRN_TRY(read_limits(from, &limits, err));
    if (from->name[0] == '\0')
        return wrong("name", from->name, "a name", err);
    if (is_user && from->members != NULL)
        return firn_fail(err, FIRN_EINVAL, "a user has no members");
    if (is_user && strcmp(from->name, "*") == 0) {
        accounts->anyone = limits;
        return FIRN_OK;
    }
    if (has_account(accounts, kind, from->name))
        return firn_fail(err, FIRN_EINVAL, "%s '%s' is listed twice",
                         is_user ? "user" : "project", from->name);
    int at = is_user ? accounts_user(accounts, from->name)
                     : accounts_project_of(accounts, from->name);
    accounts->list.at[at].limits = limits;
    if (from->members != NULL)
        read_members(accounts, from->members, from->name);
    return FIRN_OK;
}

static enum firn_status fail_at(const char *where, long line,
                                struct firn_error *err)
{
    char context[300];
    snprintf(context, sizeof context, "%.250s: line %ld", where, line);
    firn_fail_in(err, context);
    return FIRN_EINVAL;
}

/* The entry of '*' first: its limits are those that others begin from. */
static enum firn_status read_users(struct accounts *accounts,
                                   const struct said *said,
                                   const struct survey *s, size_t first,
                                   const char *where, struct firn_error *err)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < said->users_count; i++) {
            bool is_any = strcmp(said->users[i].name, "*") == 0;
            if (is_any != (pass == 0))
                continue;
            if (read_entry(accounts, &said->users[i], ACCOUNT_USER, err) !=
                FIRN_OK)
                return fail_at(
                    where,
                    first + i < s->entries.n ? s->entries.at[first + i] : 1,
                    err);
        }
    return FIRN_OK;
}

static enum firn_status build(struct accounts *accounts,
                              const struct said *said, const struct survey *s,
                              const char *where, struct firn_error *err)
{
    /* Entries are numbered in the order of the file. */
    bool users_first =
        said->users_count > 0 && said->projects_count > 0 &&
        yaml_line(&s->words, "users") < yaml_line(&s->words, "projects");
    size_t projects_at = users_first ? said->users_count : 0;
    size_t users_at = users_first ? 0 : said->projects_count;
    if (read_time("half-life", said->half_life, 60, &accounts->half_life_s,
                  err) != FIRN_OK ||
        read_time("window", said->window, 60, &accounts->window_s, err) !=
            FIRN_OK ||
        read_time("slice", said->slice, 0, &accounts->slice_s, err) !=
            FIRN_OK ||
        read_real("past", said->past, 0, &accounts->past, err) != FIRN_OK) {
        firn_fail_in(err, where);
        return FIRN_EINVAL;
    }
    for (size_t i = 0; i < said->projects_count; i++)
        if (read_entry(accounts, &said->projects[i], ACCOUNT_PROJECT, err) !=
            FIRN_OK)
            return fail_at(where,
                           projects_at + i < s->entries.n
                               ? s->entries.at[projects_at + i]
                               : 1,
                           err);
    return read_users(accounts, said, s, users_at, where, err);
}

enum firn_status accounts_parse(struct accounts **out, struct firn_bytes yaml,
                                const char *where, struct firn_error *err)
{
    struct survey survey = {0};
    void *data = NULL;
    struct accounts *accounts = accounts_new();
    enum firn_status status = yaml_walk(yaml, where, judge, &survey, err);
    if (status == FIRN_OK)
        status = yaml_load(&data, &top, yaml, where, &survey.words, err);
    if (status == FIRN_OK)
        status = build(accounts, data, &survey, where, err);
    yaml_free(data, &top);
    yaml_words_release(&survey.words);
    vec_release(&survey.entries);
    if (status == FIRN_OK)
        *out = accounts;
    else
        accounts_free(accounts);
    return status;
}

enum firn_status accounts_load(struct accounts **out, const char *path,
                               struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = files_text(&text, path, err);
    if (status == FIRN_OK)
        status = accounts_parse(
            out, (struct firn_bytes){text.n > 0 ? text.at : "", text.n}, path,
            err);
    buf_release(&text);
    return status;
}
