/* test_access.c - roles by lists, and the matrix of every route by every role.
 *
 * The matrix is written from routes.def and access.def and compared with the
 * page that administrators read (docs/access.md), so that neither changes
 * without the other. FIRN_UPDATE=1 writes the page's table anew.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/api.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_in(void *arg, const char *group)
{
    return strcmp(arg, group) == 0;
}

static void the_highest_role_of_the_lists_holds(void **state)
{
    (void)state;
    static const struct access_lists lists = {.operators = "ann, @admins",
                                              .users = "bob,ann,@lab",
                                              .viewers = "@lab"};
    static const struct {
        const char *user, *group;
        enum access_role role;
    } cases[] = {
        {"ann", "none", ACCESS_OPERATOR}, {"eve", "admins", ACCESS_OPERATOR},
        {"bob", "none", ACCESS_USER},     {"eve", "lab", ACCESS_USER},
        {"eve", "none", ACCESS_GUEST},    {"admins", "none", ACCESS_GUEST},
        {"@lab", "none", ACCESS_GUEST},   {"", "none", ACCESS_GUEST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char group[32];
        snprintf(group, sizeof group, "%s", cases[i].group);
        assert_int_equal(access_role_of(&lists, cases[i].user, is_in, group),
                         cases[i].role);
    }
    static const struct access_lists none;
    assert_int_equal(access_role_of(&none, "ann", is_in, (char[]){"lab"}),
                     ACCESS_GUEST);
}

static void the_user_of_firnd_and_root_are_operators(void **state)
{
    (void)state;
    static const struct access_lists none;
    assert_int_equal(access_role_of_uid(&none, geteuid(), "x"),
                     ACCESS_OPERATOR);
    assert_int_equal(access_role_of_uid(&none, 0, "root"), ACCESS_OPERATOR);
    assert_int_equal(access_role_of_uid(&none, 54321, "uid 54321"),
                     ACCESS_GUEST);
    static const struct access_lists groups = {.users = "@root,@no-such-group"};
    assert_int_equal(access_role_of_uid(&groups, 54321, "uid 54321"),
                     ACCESS_GUEST);
}

static void wrong_words_of_a_list_are_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "ann,",     ",",  "@",  "a b",
                                        "a;b", "ann,,bob", "-x", "a/b"};
    static const char *const right[] = {"ann", "@lab", "ann, bob ,@lab",
                                        "a.b-c_d", "EXAMPLE+ann"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_error err = {0};
        assert_int_equal(access_check_list("users", wrong[i], &err),
                         FIRN_EINVAL);
        assert_non_null(strstr(err.text, "'users'"));
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct firn_error err = {0};
        assert_int_equal(access_check_list("users", right[i], &err), FIRN_OK);
    }
}

/* --- the matrix ---------------------------------------------------------- */

static const struct {
    const char *head;
    enum access_role role;
    bool is_owner;
} columns[] = {
    {"guest", ACCESS_GUEST, false},    {"job, others", ACCESS_JOB, false},
    {"job, itself", ACCESS_JOB, true}, {"scraper", ACCESS_SCRAPER, false},
    {"viewer", ACCESS_VIEWER, false},  {"user, others", ACCESS_USER, false},
    {"user, own", ACCESS_USER, true},  {"operator", ACCESS_OPERATOR, false}};
enum { NCOLUMNS = sizeof columns / sizeof *columns };

static void write_matrix(struct firn_buf *out)
{
    static const char *const words[] = {"no", "public part", "yes"};
    size_t n;
    const struct api_route *routes = api_routes(&n);
    buf_puts(out, "| route | right |");
    for (size_t c = 0; c < NCOLUMNS; c++)
        buf_printf(out, " %s |", columns[c].head);
    buf_puts(out, "\n| --- | --- |");
    for (size_t c = 0; c < NCOLUMNS; c++)
        buf_puts(out, " --- |");
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "\n| `%s %s` | %s |", routes[i].method, routes[i].path,
                   access_right_name(routes[i].right));
        for (size_t c = 0; c < NCOLUMNS; c++)
            buf_printf(out, " %s |",
                       words[access_may(columns[c].role, routes[i].right,
                                        columns[c].is_owner)]);
    }
    buf_puts(out, "\n");
}

static void the_page_has_the_matrix_of_routes_and_roles(void **state)
{
    (void)state;
    static const char path[] = "docs/access.md", mark[] = "| route | right |";
    struct firn_buf page = {0}, want = {0};
    char room[4096];
    size_t n;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while ((n = fread(room, 1, sizeof room, file)) > 0)
        buf_add(&page, room, n);
    fclose(file);
    write_matrix(&want);
    char *from = strstr(page.at, mark);
    assert_non_null(from);
    char *end = strstr(from, "|\n\n");
    assert_non_null(end);
    end += 2;
    bool is_same =
        (size_t)(end - from) == want.n && memcmp(from, want.at, want.n) == 0;
    if (!is_same && getenv("FIRN_UPDATE") != NULL) {
        file = fopen(path, "w");
        assert_non_null(file);
        fwrite(page.at, 1, (size_t)(from - page.at), file);
        fwrite(want.at, 1, want.n, file);
        fputs(end, file);
        fclose(file);
        is_same = true;
    }
    buf_release(&page);
    buf_release(&want);
    if (!is_same)
        fail_msg("the table in %s is not that of routes.def and access.def: "
                 "FIRN_UPDATE=1 writes it",
                 path);
}

static void a_role_may_what_lower_roles_may(void **state)
{
    (void)state;
    for (int r = 0; r < ACCESS_NRIGHTS; r++)
        for (int own = 0; own < 2; own++) {
            enum access_right right = (enum access_right)r;
            enum access viewer = access_may(ACCESS_VIEWER, right, own);
            enum access user = access_may(ACCESS_USER, right, own);
            enum access operator= access_may(ACCESS_OPERATOR, right, own);
            assert_true(access_may(ACCESS_GUEST, right, own) <= viewer);
            assert_true(viewer <= user);
            assert_true(user <= operator);
        }
}

static void the_owner_may_what_others_may(void **state)
{
    (void)state;
    for (int role = 0; role < ACCESS_NROLES; role++)
        for (int r = 0; r < ACCESS_NRIGHTS; r++)
            assert_true(access_may((enum access_role)role, (enum access_right)r,
                                   false) <= access_may((enum access_role)role,
                                                        (enum access_right)r,
                                                        true));
}

static void a_job_may_report_for_itself_and_nothing_else(void **state)
{
    (void)state;
    for (int r = 0; r < ACCESS_NRIGHTS; r++) {
        bool is_for_all = access_may(ACCESS_GUEST, (enum access_right)r,
                                     false) != ACCESS_NONE;
        bool may_other =
            access_may(ACCESS_JOB, (enum access_right)r, false) != ACCESS_NONE;
        bool may_own =
            access_may(ACCESS_JOB, (enum access_right)r, true) != ACCESS_NONE;
        assert_int_equal(may_other, is_for_all);
        assert_int_equal(may_own, is_for_all || r == ACCESS_RIGHT_REPORT);
    }
}

static void a_scraper_reads_metrics_and_nothing_else(void **state)
{
    (void)state;
    size_t n, nmay = 0;
    const struct api_route *routes = api_routes(&n);
    for (size_t i = 0; i < n; i++) {
        bool may =
            access_may(ACCESS_SCRAPER, routes[i].right, true) != ACCESS_NONE;
        bool is_open = routes[i].right == ACCESS_RIGHT_OPEN;
        assert_int_equal(may,
                         is_open || strcmp(routes[i].path, "/metrics") == 0);
        nmay += may && !is_open;
    }
    assert_int_equal(nmay, 1);
}

static void roles_have_names(void **state)
{
    (void)state;
    enum access_role role;
    for (int r = ACCESS_SCRAPER; r < ACCESS_NROLES; r++) {
        assert_true(
            access_role_named(access_role_name((enum access_role)r), &role));
        assert_int_equal(role, r);
    }
    assert_false(access_role_named("guest", &role));
    assert_false(access_role_named("job", &role));
    assert_false(access_role_named("", &role));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_role_of_the_lists_holds),
        cmocka_unit_test(the_user_of_firnd_and_root_are_operators),
        cmocka_unit_test(wrong_words_of_a_list_are_named),
        cmocka_unit_test(the_page_has_the_matrix_of_routes_and_roles),
        cmocka_unit_test(a_role_may_what_lower_roles_may),
        cmocka_unit_test(the_owner_may_what_others_may),
        cmocka_unit_test(a_job_may_report_for_itself_and_nothing_else),
        cmocka_unit_test(a_scraper_reads_metrics_and_nothing_else),
        cmocka_unit_test(roles_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
