/* test_launchmsg.c - requests to the launcher and identities of a supervisor,
 * as texts: what is not exactly one of them is refused.
 */
#include "base/buf.h"
#include "engine/identity.h"
#include "engine/launchmsg.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum firn_status read_line(const char *text, struct launchmsg *out)
{
    struct firn_error err = {0};
    return launchmsg_read(out, (struct firn_bytes){text, strlen(text)}, &err);
}

#define SBATCH  "sbatch ann 7 3 0123456789abcdef\n"
#define SCANCEL "scancel ann 7 3 0123456789abcdef\n"
#define FIXED   "--output=/dev/null\n--error=/dev/null\n--chdir=/\n"

static void a_request_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "check ann\n",
        "start b.o-b_2 7 3 0123456789abcdef 000000000000000f "
        "ffffffffffffffff\n",
        "gpus 7 3 0123456789abcdef 8000000000000001 0000000000000000\n",
        "end 2147483647 ffffffffffffffff\n",
        "check EXAMPLE+ann$\n",
        SBATCH FIXED "--job-name=firn:5:7:3\n--gres=gpu:v100s1:1,gpu:2\n",
        SBATCH FIXED "--job-name=firn:5:7:3\n:\n--job-name=firn:5:7:3\n",
        SBATCH FIXED "--job-name=firn:5:7:3:12\n", /* a further allocation */
        SCANCEL "--quiet\n--name=firn:5:7:3:12\n42\n",
        SCANCEL "--quiet\n--name=firn:5:7:3\n41\n",
        SCANCEL "--state=PENDING\n--name=firn:18446744073709551615:7:3\n1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct launchmsg msg;
        struct firn_buf out = {0};
        assert_int_equal(read_line(lines[i], &msg), FIRN_OK);
        launchmsg_write(&msg, &out);
        assert_string_equal(out.at, lines[i]);
        buf_release(&out);
    }
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "\n",
        "check\n",
        "check \n",
        "check ann",
        "check ann\n\n",
        "check  ann\n",
        "check ann \n",
        "check ann 1\n",
        "Check ann\n",
        "check ../ann\n",
        "check a/b\n",
        "check -x\n",
        "check .\n",
        "check a\nb\n",
        "start ann 7 3\n",
        "start ann 7 3 0123\n",
        "start ann 7 3 0123456789ABCDEF\n",
        "start ann 0 3 0123456789abcdef\n",
        "start ann 07 3 0123456789abcdef\n",
        "start ann -7 3 0123456789abcdef\n",
        "start ann 7 0 0123456789abcdef\n",
        "start ann 2147483648 3 0123456789abcdef\n",
        "start ann 7 9999999999999999999 0123456789abcdef\n",
        "start ann 7 3 0123456789abcdef x\n",
        "start ann 7 3 0123456789abcdef\n",
        "start ann 7 3 0123456789abcdef 000000000000000f\n",
        "start ann 7 3 0123456789abcdef 000000000000000F 000000000000000f\n",
        "start ann 7 3 0123456789abcdef f f\n",
        "start ann 7 3 0123456789abcdef 000000000000000f 000000000000000f \n",
        "start ann 7 3 0123456789abcdef 000000000000000f 000000000000000f 0\n",
        "gpus ann 7 3 0123456789abcdef 000000000000000f 000000000000000f\n",
        "gpus 7 0123456789abcdef 000000000000000f 000000000000000f\n",
        "gpus 7 3 0123456789abcdef\n",
        "end 7 0123456789abcdef 000000000000000f\n",
        "end ann 7 0123456789abcdef\n",
        "end 7\n",
        "stop 7 0123456789abcdef\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct launchmsg msg;
        if (read_line(wrong[i], &msg) != FIRN_EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
    }
    struct launchmsg msg;
    struct firn_error err = {0};
    assert_int_equal(
        launchmsg_read(&msg, (struct firn_bytes){"check a\0b\n", 10}, &err),
        FIRN_EINVAL);
}

/* The launcher runs as root: arguments beyond those that firnd needs, and jobs
 * that firn did not name, are refused. */
static void slurm_gets_only_arguments_of_a_closed_list(void **state)
{
    (void)state;
    static const char name[] = "--job-name=firn:5:7:3\n";
    static const char *const wrong[] = {"--uid=0\n",
                                        "--gid=0\n",
                                        "--get-user-env\n",
                                        "--export=NONE\n",
                                        "--export-file=/etc/shadow\n",
                                        "--output=/etc/motd\n",
                                        "--wrap=id\n",
                                        "--chdir=/root\n",
                                        "--prolog=/tmp/x\n",
                                        "--bbf=/tmp/x\n",
                                        "--nodes\n",
                                        "--nodes=\n",
                                        "--nodes=1 2\n",
                                        "--nodes=1\t\n",
                                        "--nodes=1",
                                        "-N1\n",
                                        "script.sh\n",
                                        "\n",
                                        ":\n",
                                        "--job-name=firn:5:7:4\n",
                                        "--job-name=firn:5:17:3\n",
                                        "--job-name=firn:5:7:3:1\n", /* both */
                                        "--job-name=theirs\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct launchmsg msg;
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s", SBATCH, FIXED, name, wrong[i]);
        if (read_line(text, &msg) != FIRN_EINVAL)
            fail_msg("sbatch with '%s' was taken", wrong[i]);
    }
    static const char *const lines[] = {
        SBATCH,
        SBATCH FIXED,
        SBATCH "--error=/dev/null\n--chdir=/\n--job-name=firn:5:7:3\n",
        SCANCEL,
        SCANCEL "--quiet\n41\n",
        SCANCEL "--quiet\n--name=firn:5:7:3\n",
        SCANCEL "--quiet\n--name=firn:5:7:2\n41\n",
        SCANCEL "--quiet\n--name=firn:5:7:2:3\n41\n",
        SCANCEL "--quiet\n--name=firn:5:7:3:0\n41\n",
        SCANCEL "--quiet\n--name=firn:5:7:3:\n41\n",
        SBATCH FIXED "--job-name=firn:5:7:3:x\n",
        SBATCH FIXED "--job-name=firn:5:7:4:1\n",
        SCANCEL "--quiet\n--name=theirs\n41\n",
        SCANCEL "--quiet\n--name=firn::7:3\n41\n",
        SCANCEL "--quiet\n--name=firn:x:7:3\n41\n",
        SCANCEL "--quiet\n--name=firn:5:7:3\n041\n",
        SCANCEL "--quiet\n--name=firn:5:7:3\n41\n42\n",
        SCANCEL "--user=root\n--name=firn:5:7:3\n41\n",
        "check ann\n--quiet\n",
        "start ann 7 3 0123456789abcdef\n--quiet\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct launchmsg msg;
        if (read_line(lines[i], &msg) != FIRN_EINVAL)
            fail_msg("'%s' was taken", lines[i]);
    }
}

static void an_identity_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"1000:1001:4,27,1001",
                                        "65534:65534:", "4294967294:1:1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct identity identity;
        char out[IDENTITY_TEXT];
        assert_true(identity_read(texts[i], &identity));
        identity_write(&identity, out);
        assert_string_equal(out, texts[i]);
    }
}

static void root_is_no_identity(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "0:0:",
                                        "0:5:5",
                                        "5:0:5",
                                        "5:5:0",
                                        "5:5",
                                        "5",
                                        "5:5:1,",
                                        "5:5:,1",
                                        "5:5:1 2",
                                        "05:5:5",
                                        "-1:5:5",
                                        "+1:5:5",
                                        "4294967295:5:5",
                                        "5:4294967296:5",
                                        "5:5:5x",
                                        "99999999999999999999:5:5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct identity identity;
        if (identity_read(wrong[i], &identity))
            fail_msg("'%s' was taken", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_written_as_it_was_read),
        cmocka_unit_test(other_lines_are_refused),
        cmocka_unit_test(slurm_gets_only_arguments_of_a_closed_list),
        cmocka_unit_test(an_identity_is_written_as_it_was_read),
        cmocka_unit_test(root_is_no_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
