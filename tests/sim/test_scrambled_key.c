/* test_scrambled_key.c - merges by estimates do not read the answer key.
 *
 * This program has a copy of taskfeed.c that asks for the key here: the true
 * ratio of epochs, or that of some other pair, which is wrong. Decisions with
 * the key follow it; decisions without it are the same, event by event,
 * whatever the key says, because nothing asks for it.
 */
#include "sim/transfers.h"

static bool scrambled_key(int task, int other, enum firn_merge_kind kind,
                          double *ratio);
#define transfers_key scrambled_key
#include "sim/taskfeed.c"
#undef transfers_key

#include "lib/play.h"
#include "lib/temp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char folder[TEMP_FOLDER];
static bool is_scrambled;
static int nasked;

/* Scrambled: good pairs are bad, bad ones good. */
static bool scrambled_key(int task, int other, enum firn_merge_kind kind,
                          double *ratio)
{
    bool is_known = transfers_key(task, other, kind, ratio);
    nasked++;
    if (!is_scrambled)
        return is_known;
    *ratio = is_known && *ratio < 0.7 ? 1.9 : 0.1;
    return true;
}

static int make_profiles(void **state)
{
    (void)state;
    temp_open(folder);
    play_profile(folder, "vit", 7);
    return 0;
}

static int remove_profiles(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

/* The event log of twenty jobs of five tasks under ymir; the caller frees it.
 */
static char *decide(bool has_key, bool scrambled)
{
    static const char *const sets[] = {"Bingsu#Cat_and_Dog", "cifar100",
                                       "frgfm#imagenette", "mnist", "food101"};
    char text[4000] = "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,"
                      "nominal,may_merge\n";
    size_t n = strlen(text);
    for (int i = 0; i < 20; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "j%d,%d,1,5,vit@%s,48,1,1\n", i, 400 * (i / 5),
                              sets[i % 5]);
    struct play play;
    play_open(&play, "1x2:v100", text);
    play.options.profiles = folder;
    play.options.transfer_key = has_key;
    is_scrambled = scrambled;
    nasked = 0;
    play_run(&play, "ymir");
    char *log = NULL;
    size_t length = 0;
    FILE *file = fopen(play.log, "r");
    assert_non_null(file);
    assert_true(getdelim(&log, &length, '\0', file) > 0);
    fclose(file);
    char *events = strstr(log, "\ncluster\t"); /* behind paths and options */
    assert_non_null(events);
    memmove(log, events, strlen(events) + 1);
    play_close(&play);
    return log;
}

static void decisions_by_estimates_are_the_same_with_any_key(void **state)
{
    (void)state;
    char *plain = decide(false, false);
    assert_int_equal(nasked, 0);
    char *scrambled = decide(false, true);
    assert_int_equal(nasked, 0);
    assert_string_equal(plain, scrambled);
    free(plain);
    free(scrambled);
}

static void decisions_by_the_key_follow_it(void **state)
{
    (void)state;
    char *plain = decide(true, false);
    assert_true(nasked > 0);
    char *scrambled = decide(true, true);
    assert_string_not_equal(plain, scrambled);
    free(plain);
    free(scrambled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_by_estimates_are_the_same_with_any_key),
        cmocka_unit_test(decisions_by_the_key_follow_it),
    };
    return cmocka_run_group_tests(tests, make_profiles, remove_profiles);
}
