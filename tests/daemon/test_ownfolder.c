/* test_ownfolder.c - folders that others can write or enter are refused. */
#include "daemon/ownfolder.h"
#include "lib/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void what_is_not_there_is_made_for_us_alone(void **state)
{
    (void)state;
    struct firn_error err = {0};
    struct stat st;
    const char *path = folder_file("new");
    assert_int_equal(ownfolder_make(path, OWNFOLDER_STATE, &err), FIRN_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(ownfolder_make(path, OWNFOLDER_SOCKET, &err), FIRN_OK);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(
        ownfolder_make(folder_file("no/where"), OWNFOLDER_STATE, &err),
        FIRN_EIO);
}

static void a_mode_that_lets_others_in_is_refused_with_a_command(void **state)
{
    (void)state;
    static const struct {
        unsigned mode;
        enum firn_status state, socket;
    } cases[] = {
        {0700, FIRN_OK, FIRN_OK},         {0755, FIRN_OK, FIRN_EINVAL},
        {0750, FIRN_OK, FIRN_EINVAL},     {0711, FIRN_OK, FIRN_EINVAL},
        {0770, FIRN_EINVAL, FIRN_EINVAL}, {0775, FIRN_EINVAL, FIRN_EINVAL},
        {0702, FIRN_EINVAL, FIRN_EINVAL}, {01777, FIRN_EINVAL, FIRN_EINVAL}};
    const char *path = folder_file("dir");
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_error err = {0};
        assert_int_equal(chmod(path, (mode_t)cases[i].mode), 0);
        assert_int_equal(ownfolder_make(path, OWNFOLDER_STATE, &err),
                         cases[i].state);
        if (cases[i].state != FIRN_OK)
            assert_non_null(strstr(err.text, "chmod go-w '"));
        assert_int_equal(ownfolder_make(path, OWNFOLDER_SOCKET, &err),
                         cases[i].socket);
        if (cases[i].socket != FIRN_OK)
            assert_non_null(strstr(err.text, "chmod 0700 '"));
    }
    assert_int_equal(rmdir(path), 0);
}

static void a_folder_of_another_user_is_refused_with_a_command(void **state)
{
    (void)state;
    struct firn_error err = {0};
    const char *path = geteuid() == 0 ? folder_file("dir") : "/";
    if (geteuid() == 0) {
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    }
    assert_int_equal(ownfolder_make(path, OWNFOLDER_STATE, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, ": chown "));
    if (geteuid() == 0)
        assert_int_equal(rmdir(path), 0);
}

static void a_file_is_not_a_folder(void **state)
{
    (void)state;
    struct firn_error err = {0};
    fclose(fopen(folder_file("file"), "w"));
    assert_int_equal(ownfolder_make(folder_file("file"), OWNFOLDER_STATE, &err),
                     FIRN_EINVAL);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_not_there_is_made_for_us_alone),
        CASE(a_mode_that_lets_others_in_is_refused_with_a_command),
        CASE(a_folder_of_another_user_is_refused_with_a_command),
        CASE(a_file_is_not_a_folder),
    };
    return cmocka_run_group_tests_name("ownfolder", tests, NULL, NULL);
}
