/* test_jobfields.c - each row of core/jobfields.def works in every place.
 *
 * Nothing here names a field: the cases walk over the table. A value is made up
 * for each field by its kind; a job that has all of them goes through job file,
 * options, state file and API, and must come out the same. The pages that are
 * made from the table (openapi.yaml) or must mention its keys (jobs.md) are
 * compared with it. FIRN_UPDATE=1 writes openapi.yaml anew.
 */
#include "cli/flags.c"
#include "cli/jobtext.c"
#include "cli/safetext.c"
#include "daemon/jobfile.h"
#include "daemon/storework.h"
#include "tests/daemon/apiscene.h"
#undef CASE
#include "lib/trace_text.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { SAMPLE_MAX = 240 };

/* --- a value for each field ---------------------------------------------- */

/* One of two values of the field, which no other field has. */
static const char *sample(size_t i, bool is_other, char out[SAMPLE_MAX])
{
    const struct job_field *f = &job_fields[i];
    int n = (int)i + 1 + (is_other ? JOB_NFIELDS : 0);
    long whole = (100 + n > f->most ? (long)f->most : 100 + n) - is_other;
    const char *words = f->words;
    switch (f->kind) {
    case JOB_NAME:
        snprintf(out, SAMPLE_MAX, "name-%d", n);
        break;
    case JOB_TEXT:
        snprintf(out, SAMPLE_MAX, "a text: %d # no", n);
        if (i == JOB_FIELD_waits_for) /* a job that there is */
            snprintf(out, SAMPLE_MAX, is_other ? "ok:1" : "any:1");
        if (i == JOB_FIELD_slurm_constraint || i == JOB_FIELD_slurm_container)
            snprintf(out, SAMPLE_MAX, "text%d", n);
        if (i == JOB_FIELD_slurm_options)
            snprintf(out, SAMPLE_MAX, "--hint=h%d --cpu-bind=none", n);
        break;
    case JOB_PATH:
        snprintf(out, SAMPLE_MAX, "/some/where %d", n);
        break;
    case JOB_CHOICE:
        words += is_other ? strcspn(words, "|") + 1 : 0;
        snprintf(out, SAMPLE_MAX, "%.*s", (int)strcspn(words, "|"), words);
        break;
    case JOB_TYPES:
        snprintf(out, SAMPLE_MAX, "a100,v%d", n);
        break;
    case JOB_WORDS:
        words += is_other ? strcspn(words, "|") + 1 : 0;
        snprintf(out, SAMPLE_MAX, "%.*s", (int)strcspn(words, "|"), words);
        break;
    case JOB_MODEL:
        snprintf(out, SAMPLE_MAX, is_other ? "gpt2-medium" : "gpt2");
        break;
    case JOB_CONFIG:
        snprintf(out, SAMPLE_MAX,
                 "{\"model_type\": \"llama\", \"hidden_size\": 2048, "
                 "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, "
                 "\"intermediate_size\": 128, \"vocab_size\": 1000}",
                 n);
        break;
    case JOB_COMMAND:
        snprintf(out, SAMPLE_MAX, "python train.py --lr %d", n);
        break;
    case JOB_ENV:
        snprintf(out, SAMPLE_MAX, "A_VARIABLE=of %d", n);
        break;
    case JOB_WHOLE:
        snprintf(out, SAMPLE_MAX, "%ld", whole);
        break;
    case JOB_RANGE:
        snprintf(out, SAMPLE_MAX, is_other ? "3..8" : "2..8");
        break;
    case JOB_COUNT:
        snprintf(out, SAMPLE_MAX, "%d", 100000 + n);
        break;
    case JOB_ALLOWED:
    case JOB_YES:
        snprintf(out, SAMPLE_MAX, is_other ? "never" : "allowed");
        break;
    case JOB_EVENTS:
        snprintf(out, SAMPLE_MAX, is_other ? "lost" : "failure,lost");
        break;
    case JOB_NUMBER:
        snprintf(out, SAMPLE_MAX, "%d.5", n);
        break;
    case JOB_TIME:
        snprintf(out, SAMPLE_MAX, "%dm%ds", n, n);
        break;
    case JOB_DATE:
        snprintf(out, SAMPLE_MAX, "2026-11-20T18:%02dZ", n % 60);
        break;
    case JOB_GIB:
        snprintf(out, SAMPLE_MAX, "%d.5GiB", n);
        break;
    case JOB_SHARE:
        snprintf(out, SAMPLE_MAX, "%d%%", 1 + n % 99);
        break;
    }
    return out;
}

/* The value as YAML: lists and mappings where the kind has them. */
static void put_sample(struct firn_buf *out, size_t i, bool is_other)
{
    char text[SAMPLE_MAX];
    enum job_kind kind = job_fields[i].kind;
    sample(i, is_other, text);
    char *sign = strchr(text, '=');
    char *comma = strchr(text, ',');
    if (kind == JOB_ENV) {
        *sign = '\0';
        buf_printf(out, "{%s: \"%s\"}", text, sign + 1);
    } else if (kind == JOB_CONFIG) {
        buf_printf(out, "'%s'", text);
    } else if (comma != NULL) {
        *comma = '\0';
        buf_printf(out, "[%s, %s]", text, comma + 1);
    } else {
        buf_printf(out, "\"%s\"", text);
    }
}

/* A job file with every key; field `other` has the other value. */
static void put_file(struct firn_buf *out, size_t other)
{
    const char *open = "";
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const char *last, *key = job_fields[i].key;
        if (key == NULL)
            continue;
        size_t n = job_field_group(&job_fields[i], &last);
        if (n > 0 && strncmp(open, key, n + 1) != 0)
            buf_printf(out, "%.*s:\n", (int)n, key);
        buf_printf(out, "%s%s: ", n > 0 ? "  " : "", last);
        put_sample(out, i, i == other);
        buf_putc(out, '\n');
        open = key;
    }
}

static struct live_ask read_text(const struct firn_buf *text)
{
    struct live_ask ask;
    if (jobfile_read(&ask, (struct firn_bytes){text->at, text->n}, "j",
                     &oops) != FIRN_OK)
        fail_msg("%s\n%s", oops.text, text->at);
    return ask;
}

static struct live_ask read_file(size_t other)
{
    struct firn_buf text = {0};
    put_file(&text, other);
    struct live_ask ask = read_text(&text);
    buf_release(&text);
    return ask;
}

static void same_asks(const struct live_ask *a, const struct live_ask *b)
{
    struct firn_buf x = {0}, y = {0};
    ask_text(&x, a);
    ask_text(&y, b);
    assert_string_equal(x.at, y.at);
    buf_release(&x);
    buf_release(&y);
}

/* The line of a field in ask_text(). */
static void line_of(const struct live_ask *ask, size_t i, char out[400])
{
    struct firn_buf text = {0};
    ask_text(&text, ask);
    const char *at = text.at;
    for (size_t k = 0; k < i; k++)
        at = strchr(at, '\n') + 1;
    snprintf(out, 400, "%.*s", (int)strcspn(at, "\n"), at);
    buf_release(&text);
}

/* --- cases --------------------------------------------------------------- */

/* Do both keys stand in one mapping? */
static bool same_group(const struct job_field *a, const struct job_field *b)
{
    const char *last;
    size_t n = job_field_group(a, &last);
    return n > 0 && n == job_field_group(b, &last) &&
           strncmp(a->key, b->key, n) == 0;
}

/* Another value changes its field, and no other that has a key; but the shape
 * of a model has all that stands in 'model'. */
static void each_key_of_a_job_file_sets_its_own_field(void **state)
{
    (void)state;
    struct live_ask all = read_file(JOB_NFIELDS);
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        if (job_fields[i].key == NULL)
            continue;
        struct live_ask ask = read_file(i);
        for (size_t k = 0; k < JOB_NFIELDS; k++) {
            const struct job_field *f = &job_fields[k];
            char with[400], without[400];
            line_of(&all, k, with);
            line_of(&ask, k, without);
            bool differs = strcmp(with, without) != 0;
            bool may = f->key == NULL ||
                       (f->kind == JOB_MODEL && same_group(f, &job_fields[i]));
            if (differs != (k == i) && !may)
                fail_msg("%s changes %s: %s, %s", job_fields[i].key, f->name,
                         with, without);
        }
        live_ask_release(&ask);
    }
    live_ask_release(&all);
}

static void options_make_the_same_job_as_a_file(void **state)
{
    (void)state;
    struct args {
        struct job_flags job;
    } args;
    static const struct flag none[] = {{0}};
    static const struct flags_page page = {
        .command = "submit", .table = none, .shared = job_flags_table};
    static char texts[JOB_NFIELDS][SAMPLE_MAX], names[JOB_NFIELDS][SAMPLE_MAX];
    char *argv[2 * JOB_NFIELDS + 8] = {"submit"};
    int argc = 1;
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *f = &job_fields[i];
        if (f->key == NULL || f->kind == JOB_COMMAND)
            continue;
        if (f->flag == NULL)
            fail_msg("%s has no option", f->name);
        snprintf(names[i], SAMPLE_MAX, "--%s", f->flag);
        argv[argc++] = names[i];
        if (f->metavar != NULL) {
            sample(i, false, texts[i]);
            argv[argc++] = texts[i];
        }
    }
    char command[SAMPLE_MAX], *rest = command, *word;
    sample(JOB_FIELD_argv, false, command);
    argv[argc++] = "--";
    while ((word = strtok_r(NULL, " ", &rest)) != NULL)
        argv[argc++] = word;
    job_flags_init(&args.job);
    assert_false(job_flags_any(&args.job));
    assert_int_equal(flags_parse(&page, &args, &argc, argv), -1);
    assert_true(job_flags_any(&args.job));
    argv[argc] = NULL;
    struct firn_buf text = {0};
    if (job_text(&text, &args.job, argv + 1, "/here", &oops) != FIRN_OK)
        fail_msg("%s", oops.text);
    struct live_ask flags = read_text(&text), file = read_file(JOB_NFIELDS);
    same_asks(&flags, &file);
    live_ask_release(&flags);
    live_ask_release(&file);
    job_flags_release(&args.job);
    buf_release(&text);
}

static void every_field_is_the_same_after_a_restart(void **state)
{
    (void)state;
    struct liveset d = liveset_open();
    struct live_ask ask = read_file(JOB_NFIELDS), kept;
    struct live_job *job = NULL;
    bool is_new;
    mem_free(ask.user);
    ask.user = mem_strdup("ann");
    assert_int_equal(
        book_submit(d.book, &ask, "text", "", 1, &job, &is_new, &oops),
        FIRN_OK);
    liveset_reopen(&d);
    kept = read_file(JOB_NFIELDS);
    mem_free(kept.user);
    kept.user = mem_strdup("ann");
    job = book_job(d.book, 1);
    assert_non_null(job);
    same_asks(&job->ask, &kept);
    live_ask_release(&kept);
    liveset_close(&d);
}

/* JSON of a member, as the API should have it. */
static json_t *expected_json(size_t i, const struct live_ask *ask)
{
    const void *member = live_ask_member(ask, (enum job_field_id)i);
    json_t *list = NULL;
    switch (job_field_storage(&job_fields[i])) {
    case JOB_AS_TEXT:
        return job_fields[i].kind == JOB_MODEL ||
                       job_fields[i].kind == JOB_CONFIG
                   ? json_loads(*(char *const *)member, 0, NULL)
                   : json_string(*(char *const *)member);
    case JOB_AS_LIST:
        list = json_array();
        for (char **at = *(char **const *)member; *at != NULL; at++)
            json_array_append_new(list, json_string(*at));
        return list;
    case JOB_AS_INT:
        return json_integer(*(const int *)member);
    case JOB_AS_COUNT:
        return json_integer(*(const int64_t *)member);
    case JOB_AS_BOOL:
        return json_boolean(*(const bool *)member);
    case JOB_AS_REAL:
        return json_real(*(const double *)member);
    }
    return NULL;
}

static bool same_json(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) != 0;
}

/* --- openapi.yaml -------------------------------------------------------- */

/* Is the key in the schema of that name, one level inside `properties`? */
static bool in_schema(const char *page, const char *schema, const char *key)
{
    char head[64], line[64];
    snprintf(head, sizeof head, "\n    %s:\n", schema);
    snprintf(line, sizeof line, "\n        %s:", key);
    const char *at = strstr(page, "\n  schemas:\n");
    assert_non_null(at);
    at = strstr(at, head);
    assert_non_null(at);
    for (at += strlen(head) - 1; strncmp(at, "\n     ", 6) == 0;
         at = strchr(at + 1, '\n'))
        if (strncmp(at, line, strlen(line)) == 0)
            return true;
    return false;
}

static void the_api_tells_every_field_and_openapi_every_key(void **state)
{
    (void)state;
    struct firn_buf text = {0}, page = file_text("docs/openapi.yaml");
    put_file(&text, JOB_NFIELDS);
    json_decref(api_ask("POST", "/v1/jobs", api_simple, 201));
    json_decref(api_ask("POST", "/v1/jobs", text.at, 201));
    json_t *job = api_ask("GET", "/v1/jobs/2", "", 200);
    const json_t *ask = json_object_get(job, "ask");
    const struct live_job *known = api_job_of(2);
    size_t nseen = 0;
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        bool is_listed = (job_fields[i].where & JOB_IN_LIST) != 0;
        const json_t *shown = json_object_get(is_listed ? job : ask,
                                              job_field_json(&job_fields[i]));
        if (shown == NULL && job_fields[i].key == NULL)
            continue;
        json_t *want = expected_json(i, &known->ask);
        if (shown == NULL || !same_json(shown, want))
            fail_msg("the API tells '%s' wrongly", job_fields[i].name);
        json_decref(want);
        nseen++;
    }
    assert_true(nseen > 30);
    const char *key;
    json_t *value;
    json_object_foreach(job, key, value)
    {
        if (!in_schema(page.at, "job", key))
            fail_msg("docs/openapi.yaml: the schema of a job has no '%s'", key);
    }
    json_object_foreach((json_t *)ask, key, value)
    {
        if (!in_schema(page.at, "ask", key))
            fail_msg("docs/openapi.yaml: the schema of ask has no '%s'", key);
    }
    json_decref(job);
    buf_release(&text);
    buf_release(&page);
}

static void put_words(struct firn_buf *out, const char *words)
{
    buf_puts(out, ", enum: [\"");
    for (const char *at = words; *at != '\0'; at++)
        buf_puts(out, *at == '|' ? "\", \"" : (char[]){*at, '\0'});
    buf_puts(out, "\"]");
}

static void put_help(struct firn_buf *out, const char *text, const char *unit)
{
    buf_puts(out, ", description: ");
    struct firn_buf help = {0};
    buf_printf(&help, "%s%s", text, unit);
    buf_json_string(out, help.at);
    buf_puts(out, "}\n");
    buf_release(&help);
}

/* A property of the API's JSON. */
static void put_property(struct firn_buf *out, const struct job_field *f)
{
    buf_printf(out, "        %s: {type: %s", job_field_json(f),
               job_field_type(f));
    if (f->kind == JOB_COMMAND || f->kind == JOB_ENV)
        buf_puts(out, ", items: {type: string}");
    put_help(out, f->api_help != NULL ? f->api_help : f->help,
             f->kind == JOB_TIME    ? "; seconds, 0 if not given"
             : f->kind == JOB_DATE  ? "; seconds since 1970, 0 if not given"
             : f->kind == JOB_GIB   ? "; GiB, 0 if not known"
             : f->kind == JOB_TYPES ? "; names with | between"
             : f->kind == JOB_WORDS ? "; words with , between"
             : f->kind == JOB_SHARE ? "; from 0 to 1"
                                    : "");
}

/* A key of a job file. */
static void put_key(struct firn_buf *out, const struct job_field *f,
                    const char *key, int indent)
{
    bool is_odd = strcmp(key, "on") == 0; /* `true` to YAML 1.1 */
    buf_printf(out, is_odd ? "%*s\"%s\": {" : "%*s%s: {", indent, "", key);
    switch (f->kind) {
    case JOB_WHOLE:
        buf_printf(out, "type: integer, minimum: %lld, maximum: %lld",
                   (long long)f->least, (long long)f->most);
        break;
    case JOB_COUNT:
        buf_puts(out, "type: integer, minimum: 1");
        break;
    case JOB_NUMBER:
        buf_puts(out, "type: number");
        break;
    case JOB_COMMAND:
    case JOB_TYPES:
    case JOB_WORDS:
    case JOB_EVENTS:
        buf_puts(out, "oneOf: [{type: string}, {type: array, items: {type: "
                      "string}}]");
        break;
    case JOB_ENV:
        buf_puts(out, "type: object, additionalProperties: {type: string}");
        break;
    case JOB_RANGE:
    case JOB_TIME:
    case JOB_GIB:
    case JOB_SHARE:
        buf_puts(out, "oneOf: [{type: string}, {type: number}]");
        break;
    case JOB_ALLOWED:
        buf_puts(out, "type: string, enum: [allowed, never]");
        break;
    default:
        buf_puts(out, "type: string");
        if (f->kind == JOB_CHOICE)
            put_words(out, f->words);
    }
    put_help(out, f->help, "");
}

static void put_keys(struct firn_buf *out)
{
    const char *open = "";
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const char *last, *key = job_fields[i].key;
        if (key == NULL)
            continue;
        size_t n = job_field_group(&job_fields[i], &last);
        if (n > 0 && strncmp(open, key, n + 1) != 0)
            buf_printf(out,
                       "        %.*s:\n          type: object\n"
                       "          properties:\n",
                       (int)n, key);
        put_key(out, &job_fields[i], last, n > 0 ? 12 : 8);
        open = key;
    }
}

/* The page with what stands between "# fields: NAME" and "# end" made anew. */
static void remake(struct firn_buf *out, const char *page)
{
    size_t nblocks = 0;
    for (const char *line = page; *line != '\0'; nblocks++) {
        const char *mark = strstr(line, "# fields: ");
        const char *end = mark != NULL ? strstr(mark, "        # end") : NULL;
        if (end == NULL)
            break;
        const char *rest = strchr(mark, '\n') + 1;
        buf_add(out, line, (size_t)(rest - line));
        bool is_list = strncmp(mark, "# fields: list", 14) == 0;
        bool is_ask = strncmp(mark, "# fields: ask", 13) == 0;
        for (size_t i = 0; (is_list || is_ask) && i < JOB_NFIELDS; i++)
            if (((job_fields[i].where & JOB_IN_LIST) != 0) == is_list)
                put_property(out, &job_fields[i]);
        if (!is_list && !is_ask)
            put_keys(out);
        line = end;
        page = end;
    }
    buf_puts(out, page);
    assert_int_equal(nblocks, 3);
}

static void openapi_is_made_from_the_table(void **state)
{
    (void)state;
    struct firn_buf page = file_text("docs/openapi.yaml"), want = {0};
    remake(&want, page.at);
    if (getenv("FIRN_UPDATE") != NULL) {
        FILE *file = fopen("docs/openapi.yaml", "w");
        assert_non_null(file);
        fputs(want.at, file);
        fclose(file);
    } else if (strcmp(page.at, want.at) != 0) {
        fail_msg("docs/openapi.yaml is not what core/jobfields.def makes: run "
                 "FIRN_UPDATE=1 build/tests/daemon/test_jobfields");
    }
    buf_release(&page);
    buf_release(&want);
}

static void the_manual_of_job_files_mentions_every_key(void **state)
{
    (void)state;
    struct firn_buf page = file_text("docs/jobs.md");
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const char *last;
        char whole[64], part[64];
        if (job_fields[i].key == NULL)
            continue;
        job_field_group(&job_fields[i], &last);
        snprintf(whole, sizeof whole, "`%s`", job_fields[i].key);
        snprintf(part, sizeof part, "`%s`", last);
        if (strstr(page.at, whole) == NULL && strstr(page.at, part) == NULL)
            fail_msg("docs/jobs.md has no %s", whole);
    }
    buf_release(&page);
}

/* --- the schema ---------------------------------------------------------- */

/* Files on disk have had step 1 as it was: its text, blanks apart, is for ever
 * that of the first release. */
static void the_first_step_of_the_schema_never_changes(void **state)
{
    (void)state;
    size_t n;
    const char *const *steps = store_schema(&n);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = steps[0]; *at != '\0'; at++)
        if (*at != ' ')
            hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    assert_true(n >= 5);
    assert_int_equal(hash, UINT64_C(13829628223484571721));
    assert_string_equal(steps[1],
                        "ALTER TABLE jobs ADD COLUMN inbox TEXT NOT NULL "
                        "DEFAULT '';");
}

static void the_row_in_hacking_has_the_next_step_of_the_schema(void **state)
{
    (void)state;
    struct firn_buf page = file_text("HACKING.md");
    size_t n;
    int since;
    store_schema(&n);
    const char *row = strstr(page.at, "JOB_FIELD(comment");
    assert_non_null(row);
    assert_int_equal(sscanf(strstr(row, ".since"), ".since = %d", &since), 1);
    if (since != (int)n + 1)
        fail_msg("HACKING.md adds a field in step %d, and the next is %zu",
                 since, n + 1);
    buf_release(&page);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(each_key_of_a_job_file_sets_its_own_field),
        cmocka_unit_test(options_make_the_same_job_as_a_file),
        cmocka_unit_test_setup_teardown(every_field_is_the_same_after_a_restart,
                                        folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(
            the_api_tells_every_field_and_openapi_every_key, api_scene_start,
            api_scene_stop),
        cmocka_unit_test(openapi_is_made_from_the_table),
        cmocka_unit_test(the_manual_of_job_files_mentions_every_key),
        cmocka_unit_test(the_first_step_of_the_schema_never_changes),
        cmocka_unit_test(the_row_in_hacking_has_the_next_step_of_the_schema),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
