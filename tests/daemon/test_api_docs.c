/* test_api_docs.c - the pages say what the program does: openapi.yaml has the
 * routes of routes.def, metrics.md the names of livemetrics.def, both ways.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/str.h"
#include "daemon/api.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 200 };

struct names {
    char at[MOST][128];
    size_t n;
};

static void add(struct names *names, const char *name)
{
    assert_true(names->n < MOST);
    assert_true(str_copy(names->at[names->n++], sizeof names->at[0], name));
}

static bool has(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

static void same(const struct names *a, const struct names *b)
{
    assert_true(a->n > 0 && b->n > 0);
    for (size_t i = 0; i < a->n; i++)
        if (!has(b, a->at[i]))
            fail_msg("only the first has '%s'", a->at[i]);
    for (size_t i = 0; i < b->n; i++)
        if (!has(a, b->at[i]))
            fail_msg("only the second has '%s'", b->at[i]);
    assert_int_equal(a->n, b->n);
}

static struct lines *page(const char *path)
{
    struct lines *lines = NULL;
    struct firn_error err;
    if (lines_open(&lines, path, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return lines;
}

/* "GET /jobs/{id} api_job_get" for each line of the table. */
static void routes_there_are(struct names *out)
{
    static const char *const handlers[] = {
#define ROUTE(method, path, handler, who) #handler,
#include "daemon/routes.def"
#undef ROUTE
    };
    size_t n;
    const struct api_route *routes = api_routes(&n);
    assert_int_equal(n, sizeof handlers / sizeof *handlers);
    for (size_t i = 0; i < n; i++) {
        char name[256], *to = name;
        to += snprintf(name, 64, "%s ", routes[i].method);
        bool is_inside = false;
        for (const char *at = routes[i].path;; at++) {
            if (is_inside && (*at == '/' || *at == '\0')) {
                *to++ = '}';
                is_inside = false;
            }
            *to++ = *at == ':' ? '{' : *at;
            is_inside |= *at == ':';
            if (*at == '\0')
                break;
        }
        snprintf(to - 1, 64, " %s", handlers[i]);
        add(out, name);
    }
}

/* The same from the page, whose lines are indented by two for each level. */
static void routes_on_the_page(struct names *out)
{
    struct lines *lines = page("docs/openapi.yaml");
    char path[100] = "", method[16] = "", name[256];
    for (char *line; (line = lines_next(lines)) != NULL;) {
        size_t n = strlen(line);
        if (strncmp(line, "components:", 11) == 0)
            break;
        if (strncmp(line, "  /", 3) == 0 && line[n - 1] == ':')
            snprintf(path, sizeof path, "%.*s", (int)(n - 3), line + 2);
        const char *const methods[] = {"get", "post", "patch", "put", "delete"};
        const char *const shown[] = {"GET", "POST", "PATCH", "PUT", "DELETE"};
        for (int i = 0; i < 5; i++) {
            char want[32];
            snprintf(want, sizeof want, "    %s:", methods[i]);
            if (strcmp(line, want) == 0)
                snprintf(method, sizeof method, "%s", shown[i]);
        }
        if (strncmp(line, "      operationId: ", 19) == 0) {
            snprintf(name, sizeof name, "%s %s %s", method, path, line + 19);
            add(out, name);
        }
    }
    lines_close(lines);
}

static void openapi_has_the_routes_and_no_others(void **state)
{
    (void)state;
    static struct names there, told;
    routes_there_are(&there);
    routes_on_the_page(&told);
    same(&there, &told);
}

/* "name type" from the text that is served. */
static void metrics_there_are(struct names *out)
{
    struct metrics *metrics = metrics_new();
    struct firn_buf text = {0};
    metrics_write(metrics, &text);
    struct lines *lines = lines_from((struct firn_bytes){text.at, text.n});
    for (char *line; (line = lines_next(lines)) != NULL;)
        if (strncmp(line, "# TYPE ", 7) == 0)
            add(out, line + 7);
    lines_close(lines);
    buf_release(&text);
    metrics_free(metrics);
}

static void metrics_on_the_page(struct names *out)
{
    struct lines *lines = page("docs/metrics.md");
    for (char *line; (line = lines_next(lines)) != NULL;) {
        char name[64], type[32], both[100];
        if (sscanf(line, "| `%63[a-z_]` | %31[a-z] |", name, type) != 2)
            continue;
        snprintf(both, sizeof both, "%s %s", name, type);
        add(out, both);
    }
    lines_close(lines);
}

static void the_page_of_metrics_has_all_of_them(void **state)
{
    (void)state;
    static struct names there, told;
    metrics_there_are(&there);
    metrics_on_the_page(&told);
    same(&there, &told);
    assert_int_equal(there.n, METRIC_N + 2); /* and http_requests, build */
    for (enum metric id = 0; id <= METRIC_N; id++) {
        bool is_there = false;
        size_t n = strlen(metrics_name(id));
        for (size_t i = 0; i < there.n; i++)
            is_there |= strncmp(there.at[i], metrics_name(id), n) == 0 &&
                        there.at[i][n] == ' ';
        assert_true(is_there);
    }
}

/* Values of labels stand on the page too. */
static void the_page_of_metrics_has_the_values_of_labels(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    struct firn_buf text = {0}, told = {0};
    struct lines *lines = page("docs/metrics.md");
    for (char *line; (line = lines_next(lines)) != NULL;)
        buf_printf(&told, "%s\n", line);
    lines_close(lines);
    metrics_write(metrics, &text);
    lines = lines_from((struct firn_bytes){text.at, text.n});
    size_t nvalues = 0;
    for (char *line; (line = lines_next(lines)) != NULL;) {
        char name[64], label[32], value[32], want[64];
        if (sscanf(line, "%63[a-z_]{%31[a-z]=\"%31[a-z-]\"}", name, label,
                   value) != 3 ||
            strncmp(name, "firn_jobs", 9) == 0)
            continue;
        snprintf(want, sizeof want, "`%s`", value);
        nvalues++;
        if (strstr(told.at, want) == NULL)
            fail_msg("docs/metrics.md has no %s of %s", want, name);
    }
    assert_true(nvalues > 20);
    lines_close(lines);
    buf_release(&text);
    buf_release(&told);
    metrics_free(metrics);
}

/* "firn_ends_total" is a series of the counter firn_ends, and so on. */
static bool is_series(const char *word, const char *name, const char *type)
{
    size_t n = strlen(name);
    static const char *const ends[] = {"_bucket", "_sum", "_count"};
    if (strncmp(word, name, n) != 0)
        return false;
    if (strcmp(type, "counter") == 0)
        return strcmp(word + n, "_total") == 0;
    if (strcmp(type, "histogram") != 0)
        return word[n] == '\0';
    for (int i = 0; i < 3; i++)
        if (strcmp(word + n, ends[i]) == 0)
            return true;
    return false;
}

static void dashboard_and_alerts_name_only_metrics_that_exist(void **state)
{
    (void)state;
    static const char *const files[] = {"tools/grafana/firn.json",
                                        "tools/grafana/alerts.yaml"};
    static struct names there;
    size_t nwords = 0;
    metrics_there_are(&there);
    for (int f = 0; f < 2; f++) {
        struct lines *lines = page(files[f]);
        for (char *line; (line = lines_next(lines)) != NULL;)
            for (char *at = line; (at = strstr(at, "firn_")) != NULL;) {
                size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
                char word[128];
                snprintf(word, sizeof word, "%.*s", (int)n, at);
                bool is_there = false;
                for (size_t i = 0; i < there.n; i++) {
                    char name[64], type[32];
                    assert_int_equal(
                        sscanf(there.at[i], "%63s %31s", name, type), 2);
                    is_there = is_there || is_series(word, name, type);
                }
                if (!is_there)
                    fail_msg("%s: there is no series %s", files[f], word);
                nwords++;
                at += n;
            }
        lines_close(lines);
    }
    assert_true(nwords > 30);
    json_error_t what;
    json_t *board = json_load_file(files[0], JSON_REJECT_DUPLICATES, &what);
    assert_non_null(board);
    assert_true(json_array_size(json_object_get(board, "panels")) > 10);
    json_decref(board);
}

static void a_histogram_counts_each_value_once(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct firn_buf text = {0};
    const double values[] = {0, 0.001, 0.0011, 1, 59, 1e9, -1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metrics_observe(m, METRIC_COMMIT_S, values[i]);
    metrics_observe(m, METRIC_COMMIT_S, (double)INFINITY);
    metrics_observe(m, METRIC_COMMIT_S, (double)NAN);
    assert_int_equal(metrics_get(m, METRIC_COMMIT_S, 0), 7);
    metrics_write(m, &text);
    const char *lines[] = {"firn_commit_seconds_bucket{le=\"0.001\"} 3\n",
                           "firn_commit_seconds_bucket{le=\"0.003\"} 4\n",
                           "firn_commit_seconds_bucket{le=\"0.3\"} 4\n",
                           "firn_commit_seconds_bucket{le=\"1.0\"} 5\n",
                           "firn_commit_seconds_bucket{le=\"60.0\"} 6\n",
                           "firn_commit_seconds_bucket{le=\"+Inf\"} 7\n",
                           "firn_commit_seconds_count 7\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(text.at, lines[i]));
    buf_release(&text);
    metrics_free(m);
}

static void names_of_users_are_escaped_and_cleared(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct firn_buf text = {0};
    metrics_row(m, METRIC_USER_GPUS, "a\"b\\c\nd", 1.5);
    metrics_row(m, METRIC_USER_GPUS, "zoe-x", 2);
    metrics_write(m, &text);
    assert_non_null(strstr(text.at,
                           "firn_user_gpus{user=\"a\\\"b\\\\c\\nd\"} 1.5\n"
                           "firn_user_gpus{user=\"zoe-x\"} 2\n"));
    metrics_clear(m, METRIC_USER_GPUS);
    buf_clear(&text);
    metrics_write(m, &text);
    assert_null(strstr(text.at, "zoe-x"));
    assert_non_null(strstr(text.at, "# TYPE firn_user_gpus gauge\n"));
    buf_release(&text);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(names_of_users_are_escaped_and_cleared),
        cmocka_unit_test(openapi_has_the_routes_and_no_others),
        cmocka_unit_test(the_page_of_metrics_has_all_of_them),
        cmocka_unit_test(the_page_of_metrics_has_the_values_of_labels),
        cmocka_unit_test(dashboard_and_alerts_name_only_metrics_that_exist),
        cmocka_unit_test(a_histogram_counts_each_value_once),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
