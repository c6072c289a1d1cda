/* test_simoptions.c - limits that jobs set, and what forecasts go by.
 */
#include "base/buf.h"
#include "lib/data.h"
#include "lib/play.h"
#include "sim/tables.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Seconds that a job of BERT takes when it limits its layers so. */
static double with_limit(const char *limit, enum firn_sim_freeze rule)
{
    struct play play;
    char rows[256];
    snprintf(rows, sizeof rows,
             "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,"
             "frozen_max\na,0,1,3600,bert-wikitext2,32,%s\n",
             limit);
    play_open(&play, "1x1:v100", rows);
    play.options.profiles = "builtin";
    play.options.freeze = rule;
    play_run(&play, "fifo");
    double jct_s = play.result.jct_mean_s;
    play_close(&play);
    return jct_s;
}

static void a_job_freezes_no_more_layers_than_it_allows(void **state)
{
    (void)state;
    for (int rule = FIRN_SIM_FREEZE_TUNED; rule <= FIRN_SIM_FREEZE_PENALTY;
         rule++) {
        enum firn_sim_freeze by = (enum firn_sim_freeze)rule;
        double none = with_limit("", by), whole = with_limit("1", by);
        double some = with_limit("0.3", by), least = with_limit("0.001", by);
        double off = with_limit("", FIRN_SIM_FREEZE_OFF);
        assert_true(whole == none && with_limit("0", by) == none);
        assert_true(none < some && some < least);
        assert_true(play_near(least, off));
    }
}

static void a_limit_above_one_is_a_bad_row(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,frozen_max\n"
              "a,0,1,10,0.5\nb,0,1,10,1.5\n");
    play_run(&play, "fifo");
    assert_true(play.result.jobs == 1 && play.result.bad_rows == 1);
    play_close(&play);
}

/* GPU types that job 0 held, a bit each, over its whole life and at most at
 * one time; from the log. */
static unsigned types_of(const struct play *play, unsigned *at_once)
{
    struct firn_buf log = play_read(play->log);
    unsigned all = 0;
    *at_once = 0;
    for (char *line = log.at, *end; *line != '\0'; line = end + 1) {
        char kind[16];
        int id, from = 0;
        unsigned now = 0;
        end = strchr(line, '\n');
        *end = '\0';
        if (sscanf(line, "%*s %15[a-z] %d %n", kind, &id, &from) != 2 ||
            from == 0 || id != 0 || strcmp(kind, "submit") == 0 ||
            strcmp(kind, "rate") == 0)
            continue;
        for (char *at = strchr(line, 'n'); at; at = strchr(at + 1, 'n'))
            if (at[1] >= '0' && at[1] <= '9')
                now |= 1u << play->cluster.nodes[strtol(at + 1, NULL, 10)].type;
        all |= now;
        if (__builtin_popcount(now) > __builtin_popcount(*at_once))
            *at_once = now;
    }
    buf_release(&log);
    return all;
}

/* A first has all GPUs it may; then others come that take its type away, and
 * it is stopped, or made smaller, and comes back. */
static unsigned in_a_crowd(const char *policy, const char *one_type,
                           unsigned *at_once)
{
    struct play play;
    char rows[512];
    snprintf(rows, sizeof rows,
             "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max,"
             "types,threads,one_type\na,0,2,2000,1,4,,8,%s\n"
             "b,100,2,300,,,v100,,\nc,200,1,150,,,t4,,\n"
             "d,300,2,2000,,,v100,,\n",
             one_type);
    /* it grows to all of them at once */
    static const char *const settings[] = {
        "easyscale.several=1", "easyscale.again=1", "easyscale.timeout=0"};
    play_open(&play, "1x2:v100,1x2:t4", rows);
    play.options.settings = settings;
    play.options.nsettings = 3;
    play_run(&play, policy);
    assert_int_equal(play.result.jobs, 4);
    unsigned all = types_of(&play, at_once);
    play_close(&play);
    return all;
}

static void a_job_keeps_to_one_type_if_its_row_says_so(void **state)
{
    (void)state;
    static const char *const policies[] = {"easyscale", "srtf", "optimus",
                                           "tiresias"};
    unsigned now;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        unsigned all = in_a_crowd(policies[i], "1", &now);
        if (__builtin_popcount(all) != 1 || now != all)
            fail_msg("%s: types %#x", policies[i], all);
    }
    static const char *const loose[] = {"", "0"};
    for (int i = 0; i < 2; i++) { /* the twin spans both, and at one time */
        assert_int_equal(in_a_crowd("easyscale", loose[i], &now), 3);
        assert_int_equal(now, 3);
        assert_int_equal(in_a_crowd("srtf", loose[i], &now), 3);
    }
}

/* On 1, 4 and 8 V100 at a batch of 48 a GPU. */
static double off_by(struct tables *tables, enum firn_sim_forecast by)
{
    const struct known *known = &tables->known;
    struct firn_error err = {0};
    struct known_app app = known_find(known, "vit@cifar100", 1);
    double worst = 0;
    assert_non_null(app.profile);
    assert_int_equal(tables_forecast_by(tables, by, &err), FIRN_OK);
    for (int gpus = 1; gpus <= 8; gpus *= 2) {
        struct spread where = spread_packed(app.ref, 4, gpus);
        struct setting setting = known_setting(known, &app, &where, 48 * gpus);
        double fit_s = known_fit_s(known, &app, &where, &setting);
        double true_s = tables_true_s(known, &app, &where, &setting);
        double off = fit_s > true_s ? fit_s / true_s : true_s / fit_s;
        worst = off > worst ? off : worst;
    }
    return worst - 1;
}

static void the_forecast_option_selects_fit_tables_or_pollux(void **state)
{
    (void)state;
    const char *dir = data_path("");
    struct firn_cluster cluster;
    struct tables tables;
    struct firn_error err = {0};
    if (dir == NULL || data_path("ymir/workloads/FM-1-vit.csv") == NULL) {
        print_message("no published tables here\n");
        skip();
    }
    assert_int_equal(firn_cluster_open(&cluster, "2x4:v100", &err), FIRN_OK);
    assert_int_equal(tables_open(&tables, dir, &cluster, &err), FIRN_OK);
    double fit = off_by(&tables, FIRN_SIM_FORECAST_FIT);
    assert_true(off_by(&tables, FIRN_SIM_FORECAST_TABLES) == 0);
    double pollux = off_by(&tables, FIRN_SIM_FORECAST_POLLUX);
    assert_true(fit > 0 && pollux > 0 && pollux != fit && pollux < 0.5);
    tables_close(&tables);
    firn_cluster_release(&cluster);
}

/* A model in stages, taken for whole copies: another time, the same truth, and
 * the same way that it is run in when the policy does not choose. */
static void large_models_can_be_taken_for_whole_copies(void **state)
{
    (void)state;
    static const char *const apps[] = {"llama-7b-hp", "llama-7b-sdp"};
    struct firn_cluster cluster;
    struct tables tables;
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_open(&cluster, "4x4:a100@80", &err), FIRN_OK);
    assert_int_equal(tables_open(&tables, "builtin", &cluster, &err), FIRN_OK);
    for (int i = 0; i < 2; i++) {
        struct known_app app = known_find(&tables.known, apps[i], 1);
        assert_non_null(app.profile);
        struct spread where = spread_packed(app.ref, 4, 8);
        struct setting own[2];
        double fit_s[2], true_s[2];
        for (int by = 0; by < 2; by++) {
            assert_int_equal(tables_forecast_by(&tables,
                                                by ? FIRN_SIM_FORECAST_DATA
                                                   : FIRN_SIM_FORECAST_FIT,
                                                &err),
                             FIRN_OK);
            own[by] = known_setting(&tables.known, &app, &where, 64);
            fit_s[by] = known_fit_s(&tables.known, &app, &where, &own[by]);
            true_s[by] = tables_true_s(&tables.known, &app, &where, &own[by]);
        }
        assert_true(own[0].parallel == own[1].parallel &&
                    own[0].stages == own[1].stages);
        assert_true(true_s[0] == true_s[1] && fit_s[0] == true_s[0]);
        assert_true(fit_s[1] > 0 && fit_s[1] != fit_s[0]);
    }
    tables_close(&tables);
    firn_cluster_release(&cluster);
}

static void forecasts_have_names(void **state)
{
    (void)state;
    assert_string_equal(firn_sim_forecast_name(FIRN_SIM_FORECAST_TABLES),
                        "tables");
    assert_null(firn_sim_forecast_name((enum firn_sim_forecast)4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_freezes_no_more_layers_than_it_allows),
        cmocka_unit_test(a_limit_above_one_is_a_bad_row),
        cmocka_unit_test(a_job_keeps_to_one_type_if_its_row_says_so),
        cmocka_unit_test(the_forecast_option_selects_fit_tables_or_pollux),
        cmocka_unit_test(large_models_can_be_taken_for_whole_copies),
        cmocka_unit_test(forecasts_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
