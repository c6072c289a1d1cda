/* test_fits.c - jobs that no GPUs of a cluster can run are refused with the
 * nearest thing that there is.
 */
#include "base/mem.h"
#include "daemon/fits.h"
#include "daemon/jobfile.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Four V100 of 16 GiB and eight A100 of 80. */
static void with_cluster(void (*fn)(const struct firn_cluster *cluster))
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    assert_int_equal(
        firn_cluster_parse_spec(&cluster, "1x4:v100@16,1x8:a100@80", &err),
        FIRN_OK);
    fn(&cluster);
    firn_cluster_release(&cluster);
}

static void check(const struct firn_cluster *cluster)
{
    static const char any[] = "", v100[] = "v100", h100[] = "h100";
    static const char both[] = "h100|V100";
    const struct {
        const char *types;
        int gpus;
        double mem_gib;
        const char *why; /* NULL: it fits */
    } cases[] = {
        {any, 1, 0, NULL},
        {any, 12, 0, NULL},
        {any, 13, 0, "wants 13 GPUs, the cluster has 12"},
        {any, 8, 40, NULL},
        {any, 9, 40, "wants 9 GPUs, the cluster has 8 that it can use"},
        {any, 1, 80, NULL},
        {any, 1, 90,
         "needs 90 GiB on each GPU; the largest that it accepts is "
         "a100 with 80 GiB"},
        {v100, 4, 16, NULL},
        {v100, 1, 40, "accepts is v100 with 16 GiB"},
        {v100, 5, 0, "wants 5 GPUs, the cluster has 4"},
        {both, 4, 0, NULL},
        {h100, 1, 0, "accepts GPUs of type 'h100' only; the cluster has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_ask ask = {0};
        live_ask_complete(&ask);
        mem_free(ask.types);
        ask.types = mem_strdup(cases[i].types);
        ask.gpus_min = ask.gpus_max = cases[i].gpus;
        ask.mem_gib = cases[i].mem_gib;
        struct firn_error err = {0};
        enum firn_status status = fits_check(cluster, &ask, &err);
        if (cases[i].why == NULL && status != FIRN_OK)
            fail_msg("case %zu: %s", i, err.text);
        if (cases[i].why != NULL &&
            (status != FIRN_EREFUSED || strstr(err.text, cases[i].why) == NULL))
            fail_msg("case %zu: '%s'", i, err.text);
        live_ask_release(&ask);
    }
}

static void what_can_never_run_is_refused_with_the_nearest(void **state)
{
    (void)state;
    with_cluster(check);
}

static enum firn_status look(const char *lines, double now_s, char out[512])
{
    char text[300];
    struct live_ask ask = {0};
    struct firn_error err = {0};
    snprintf(text, sizeof text, "run: true\n%s\n", lines);
    assert_int_equal(
        jobfile_read(&ask, (struct firn_bytes){text, strlen(text)}, "j", &err),
        FIRN_OK);
    enum firn_status status = fits_deadline(&ask, now_s, &err);
    if (status == FIRN_OK)
        status = fits_workdir(&ask, &err);
    snprintf(out, 512, "%s", err.text);
    live_ask_release(&ask);
    return status;
}

static void a_deadline_that_is_over_is_refused(void **unused)
{
    (void)unused;
    char why[512];
    const char *line = "deadline: 1970-01-02T00:00Z";
    assert_int_equal(look(line, 80000, why), FIRN_OK);
    assert_int_equal(look(line, 86400 + 5400, why), FIRN_EREFUSED);
    assert_non_null(strstr(why, "the deadline of the job was 1.5 h ago"));
}

static void a_working_directory_that_is_none_is_refused(void **unused)
{
    (void)unused;
    char why[512];
    assert_int_equal(look("workdir: /tmp", 0, why), FIRN_OK);
    assert_int_equal(look("workdir: /tmp/no-such-folder/a/b", 0, why),
                     FIRN_EREFUSED);
    assert_non_null(strstr(why, "'/tmp/no-such-folder/a/b'"));
    assert_non_null(strstr(why, "the nearest folder that there is: /tmp ("));
    assert_int_equal(look("workdir: /no-such-folder", 0, why), FIRN_EREFUSED);
    assert_non_null(strstr(why, "that there is: / ("));
    assert_int_equal(look("workdir: /dev/null", 0, why), FIRN_EREFUSED);
    assert_non_null(strstr(why, "is not a folder"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_never_run_is_refused_with_the_nearest),
        cmocka_unit_test(a_deadline_that_is_over_is_refused),
        cmocka_unit_test(a_working_directory_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
