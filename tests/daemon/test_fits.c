/* test_fits.c - jobs that no GPUs of a cluster can run are refused with the
 * nearest thing that there is.
 */
#include "base/mem.h"
#include "daemon/fits.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_never_run_is_refused_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
