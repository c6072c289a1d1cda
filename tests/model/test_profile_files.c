/* test_profile_files.c - the shipped profiles equal the fits of their tables.
 *
 * Makes every measured profile anew from the published tables and compares it
 * with the file, numbers to a thousandth; FIRN_WRITE_PROFILES=1 writes the
 * files instead. Skipped where the tables are not.
 */
#include "base/buf.h"
#include "lib/data.h"
#include "lib/play.h"
#include "model/measured.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Equal texts, with numbers equal to a thousandth? */
static bool same(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        char *a_end, *b_end;
        double x = strtod(a, &a_end), y = strtod(b, &b_end);
        if (a_end > a && b_end > b) {
            if (fabs(x - y) > 1e-3 * fmax(fabs(x), fabs(y)) + 1e-9)
                return false;
            a = a_end;
            b = b_end;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static void each_shipped_profile_equals_the_fit_of_its_table(void **state)
{
    (void)state;
    const char *apps = data_path("pollux/apps.csv");
    struct firn_profiles made = {0};
    struct firn_error err = {0};
    char dir[512];
    if (apps == NULL || getenv("FIRN_QUICK") != NULL) {
        print_message("%s\n", apps == NULL ? "no tables to make profiles of"
                                           : "left to the plain run");
        skip();
    }
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(apps, '/') - apps), apps);
    *strrchr(dir, '/') = '\0';
    if (measured_profiles(&made, dir, "profiles/h200", &err) != FIRN_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < made.n; i++) {
        struct firn_buf text = {0};
        char path[256];
        const struct firn_profile *p = &made.at[i];
        firn_profile_write(p, &text);
        snprintf(path, sizeof path, "profiles/%s", p->source);
        if (getenv("FIRN_WRITE_PROFILES") != NULL)
            mkdir(path, 0777);
        snprintf(path, sizeof path, "profiles/%s/%s.txt", p->source, p->app);
        if (getenv("FIRN_WRITE_PROFILES") != NULL) {
            play_write(path, text.at);
        } else {
            struct firn_buf was = play_read(path);
            if (!same(was.at, text.at))
                fail_msg("%s is not what the tables give", path);
            buf_release(&was);
        }
        buf_release(&text);
    }
    firn_profiles_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_shipped_profile_equals_the_fit_of_its_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
