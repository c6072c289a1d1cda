/* test_steady.c - jobs come and go, and the loop's memory stays as it is.
 *
 * One GPU is held by a job that stays. Others are submitted, wait for some
 * turns and are cancelled, so that the number of living jobs stands still. What
 * the process has allocated is looked at when the list of finished jobs is
 * full, and after as many jobs again.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>

enum { AT_ONCE = 50, KEEP = 100, ROUNDS = 60, BYTES_A_JOB = 64 };

/* Jobs come, and are all cancelled some turns later. */
static void come_and_go(struct loopscene *s)
{
    struct live_job *jobs[AT_ONCE];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            char name[32];
            snprintf(name, sizeof name, "j%d", i);
            jobs[i] = loopscene_submit(s, name, "gpus: 1\nduration: 1h");
        }
        loopscene_turn(s);
        for (int i = 0; i < AT_ONCE; i++)
            loopscene_cancel(s, jobs[i]);
        loopscene_turn(s);
    }
}

/* Without the pages that SQLite keeps, up to a limit of its own. */
static size_t allocated(void)
{
    struct mallinfo2 now = mallinfo2();
    size_t all = now.uordblks + now.hblkhd;
    size_t pages = (size_t)sqlite3_memory_used();
    return all > pages ? all - pages : 0;
}

static void memory_stays_while_jobs_come_and_go(void **state)
{
    struct loopscene s;
    (void)state;
    loopscene_open(&s, "1x1:v100@16", "icefrog", false);
    book_keep(s.loop->book, KEEP);
    loopscene_submit(&s, "stays", "gpus: 1\nduration: 10h");
    loopscene_turn(&s);
    come_and_go(&s);
    size_t before = allocated();
    come_and_go(&s);
    size_t after = allocated();
    assert_int_equal(round_state(s.loop->desk.round)->nwaiting, 0);
    assert_string_equal(live_state_name(loopscene_job(&s, "stays")->state),
                        "running");
    size_t most = before + (size_t)BYTES_A_JOB * AT_ONCE * ROUNDS;
    if (after > most)
        fail_msg("%zu bytes became %zu with %d jobs that came and went", before,
                 after, AT_ONCE * ROUNDS);
    print_message("%.1f bytes a job\n",
                  ((double)after - (double)before) / (AT_ONCE * ROUNDS));
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(memory_stays_while_jobs_come_and_go),
    };
    return cmocka_run_group_tests_name("daemon/steady", tests, NULL, NULL);
}
