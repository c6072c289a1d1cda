/* test_threads.c - every thread finds its own state, wherever it runs. */
#include "lib/folder.h"
#include <firn/threads.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The live state of a process: a generator, a buffer as of BatchNorm, and a
 * generator that is reached by functions only. */
static uint64_t generator;
static float mean[3];
static char hidden[40];
static bool is_too_long;

static size_t save_hidden(void *arg, void *bytes)
{
    (void)arg;
    size_t n = strlen(hidden);
    memcpy(bytes, hidden, n);
    return is_too_long ? 1000 : n;
}

static void load_hidden(void *arg, const void *bytes, size_t n)
{
    (void)arg;
    memcpy(hidden, bytes, n);
    hidden[n] = '\0';
}

static const struct firn_threads_by by_functions = {
    .max = sizeof hidden - 1, .save = save_hidden, .load = load_hidden};

static struct firn_threads *threads_of(const int *id, size_t n)
{
    struct firn_threads *t = NULL;
    struct firn_error err = {0};
    generator = 1;
    memset(mean, 0, sizeof mean);
    snprintf(hidden, sizeof hidden, "a");
    is_too_long = false;
    assert_int_equal(firn_threads_new(&t, id, n, &err), FIRN_OK);
    assert_int_equal(
        firn_threads_part(t, "rng", &generator, sizeof generator, &err),
        FIRN_OK);
    assert_int_equal(firn_threads_part(t, "bn.mean", mean, sizeof mean, &err),
                     FIRN_OK);
    assert_int_equal(firn_threads_part_by(t, "python", &by_functions, &err),
                     FIRN_OK);
    return t;
}

/* A step of thread `id`: draws, and folds what it drew into all of its state.
 * What it returns depends on all that came before in this thread. */
static uint64_t step(int id)
{
    generator = generator * 6364136223846793005u + (uint64_t)id * 2 + 1;
    mean[1] = mean[1] * 0.9f + (float)(generator >> 40);
    size_t n = strlen(hidden);
    if (n + 1 < sizeof hidden)
        snprintf(hidden + n, sizeof hidden - n, "%c",
                 'a' + (char)(generator >> 60));
    return generator ^ (uint64_t)mean[1] ^ strlen(hidden) ^
           (uint64_t)hidden[n / 2] << 8;
}

static void enter(struct firn_threads *t, int id)
{
    struct firn_error err = {0};
    assert_int_equal(firn_threads_enter(t, id, &err), FIRN_OK);
    assert_int_equal(firn_threads_inside(t), id);
}

static void leave(struct firn_threads *t)
{
    struct firn_error err = {0};
    assert_int_equal(firn_threads_leave(t, &err), FIRN_OK);
    assert_int_equal(firn_threads_inside(t), -1);
}

enum { V = 4, STEPS = 10 };
static const int all[V] = {0, 1, 2, 3};

/* What V processes of one thread each would have drawn. */
static void draw_alone(uint64_t out[V][STEPS])
{
    for (int v = 0; v < V; v++) {
        struct firn_threads *t = threads_of(&v, 1);
        enter(t, v);
        for (int i = 0; i < STEPS; i++)
            out[v][i] = step(v);
        firn_threads_free(t);
    }
}

static void threads_of_one_process_are_as_if_alone(void **state)
{
    (void)state;
    uint64_t alone[V][STEPS];
    draw_alone(alone);
    struct firn_threads *t = threads_of(all, V);
    for (int i = 0; i < STEPS; i++)
        for (int v = 0; v < V; v++) {
            enter(t, v);
            assert_true(step(v) == alone[v][i]);
            if (i % 2 == 0) /* leaving may be left out */
                leave(t);
        }
    firn_threads_free(t);
    /* the twin: without switching they are not */
    t = threads_of(all, V);
    int same = 0;
    for (int i = 0; i < STEPS; i++)
        for (int v = 0; v < V; v++)
            same += step(v) == alone[v][i];
    assert_true(same < 3);
    firn_threads_free(t);
}

static void entering_the_thread_inside_copies_nothing(void **state)
{
    (void)state;
    double switch_s, before_s;
    uint64_t n;
    struct firn_threads *t = threads_of(all, V);
    firn_threads_cost(t, &switch_s, &n);
    assert_true(n == 0 && switch_s == 0);
    enter(t, 2);
    generator = 77;
    firn_threads_cost(t, &before_s, &n);
    assert_true(n == 1 && before_s > 0);
    enter(t, 2);
    assert_int_equal(generator, 77);
    firn_threads_cost(t, &switch_s, &n);
    assert_true(n == 1 && switch_s == before_s);
    enter(t, 3);
    assert_int_equal(generator, 1);
    enter(t, 2);
    assert_int_equal(generator, 77);
    firn_threads_cost(t, &switch_s, &n);
    assert_true(n == 3 && switch_s > before_s);
    leave(t);
    leave(t); /* no thread is inside */
    firn_threads_free(t);
}

static void wrong_parts_and_threads_are_named(void **state)
{
    (void)state;
    struct firn_error err = {0};
    struct firn_threads *t = NULL;
    char byte = 0, longname[300];
    assert_int_equal(firn_threads_new(&t, (const int[]){0, 0}, 2, &err),
                     FIRN_EINVAL);
    assert_int_equal(firn_threads_new(&t, (const int[]){-1}, 1, &err),
                     FIRN_EINVAL);
    assert_null(t);
    t = threads_of((const int[]){1, 5}, 2);
    memset(longname, 'x', sizeof longname);
    longname[sizeof longname - 1] = '\0';
    assert_int_equal(firn_threads_part(t, "rng", &byte, 1, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "'rng'"));
    assert_int_equal(firn_threads_part(t, "a/b", &byte, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_threads_part(t, "", &byte, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_threads_part(t, longname, &byte, 1, &err),
                     FIRN_EINVAL);
    assert_int_equal(firn_threads_part(t, "n", NULL, 1, &err), FIRN_EINVAL);
    is_too_long = true;
    assert_int_equal(firn_threads_part_by(t, "p2", &by_functions, &err),
                     FIRN_EINVAL);
    assert_non_null(strstr(err.text, "1000"));
    is_too_long = false;
    assert_int_equal(firn_threads_enter(t, 2, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "thread 2"));
    assert_int_equal(firn_threads_inside(t), -1);
    enter(t, 5);
    assert_int_equal(firn_threads_part(t, "late", &byte, 1, &err), FIRN_EINVAL);
    is_too_long = true;
    assert_int_equal(firn_threads_leave(t, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "thread 5: part 'python'"));
    assert_int_equal(firn_threads_inside(t), 5);
    assert_int_equal(firn_threads_enter(t, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_threads_inside(t), 5);
    is_too_long = false;
    leave(t);
    firn_threads_free(t);
}

static void stored_parts_can_be_read_and_written(void **state)
{
    (void)state;
    size_t n = 0;
    struct firn_threads *t = threads_of(all, V);
    uint64_t *stored = firn_threads_stored(t, 3, "rng", &n);
    assert_int_equal(n, sizeof *stored);
    assert_int_equal((uintptr_t)stored % 16, 0);
    assert_int_equal(*stored, 1);
    *stored = 99;
    assert_memory_equal(firn_threads_stored(t, 3, "python", &n), "a", 1);
    assert_int_equal(n, 1);
    assert_null(firn_threads_stored(t, 3, "no", &n));
    assert_null(firn_threads_stored(t, 4, "rng", &n));
    enter(t, 3);
    assert_int_equal(generator, 99);
    assert_null(firn_threads_stored(t, 3, "rng", &n));
    enter(t, 0);
    assert_int_equal(generator, 1);
    for (int i = 5; i > 1; i--) { /* shorter and shorter */
        enter(t, 0);
        snprintf(hidden, sizeof hidden, "%.*s", i, "abcdef");
        leave(t);
        assert_memory_equal(firn_threads_stored(t, 0, "python", &n), "abcdef",
                            (size_t)i);
        assert_int_equal(n, i);
    }
    firn_threads_free(t);
}

/* --- by checkpoint --- */

/* Several processes, each with some threads, go through `steps` steps from
 * `from`; packed by each, written by one. */
static void run(const int *owner, int nprocesses, int from, int steps,
                uint64_t out[V][STEPS])
{
    struct firn_ckpt *c = NULL;
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    if (from > 0)
        assert_int_equal(
            firn_ckpt_open_newest(&c, folder_path(), "job", NULL, &err),
            FIRN_OK);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job",
                                      (uint64_t)(from + steps), &err),
                     FIRN_OK);
    for (int p = 0; p < nprocesses; p++) {
        int mine[V];
        size_t n = 0, nbytes = 0;
        void *bytes = NULL;
        for (int v = 0; v < V; v++)
            if (owner[v] == p)
                mine[n++] = v;
        struct firn_threads *t = threads_of(mine, n);
        if (c != NULL && firn_threads_read(t, c, &err) != FIRN_OK)
            fail_msg("%s", err.text);
        for (int i = from; i < from + steps; i++)
            for (size_t m = 0; m < n; m++) {
                enter(t, mine[m]);
                out[mine[m]][i] = step(mine[m]);
            }
        if (n > 0)
            assert_int_equal(firn_threads_pack(t, &bytes, &nbytes, &err),
                             FIRN_EINVAL);
        leave(t);
        assert_int_equal(firn_threads_pack(t, &bytes, &nbytes, &err), FIRN_OK);
        assert_int_equal(firn_threads_write(bytes, nbytes, w, &err), FIRN_OK);
        firn_threads_pack_free(bytes);
        firn_threads_free(t);
    }
    firn_ckpt_close(c);
    assert_int_equal(firn_ckpt_commit(w, 0, &err), FIRN_OK);
}

static void contexts_move_between_processes_by_checkpoint(void **state)
{
    (void)state;
    uint64_t alone[V][STEPS], moved[V][STEPS];
    draw_alone(alone);
    run((const int[]){0, 1, 2, 3}, 4, 0, 3, moved);
    run((const int[]){0, 1, 1, 0}, 3, 3, 2, moved); /* the third has none */
    run((const int[]){0, 0, 0, 0}, 1, 5, 3, moved);
    run((const int[]){2, 0, 1, 0}, 3, 8, 2, moved);
    assert_memory_equal(alone, moved, sizeof alone);
}

static struct firn_ckpt *checkpoint_of(const int *id, size_t n, size_t room)
{
    struct firn_threads *t = NULL;
    struct firn_ckpt_writer *w = NULL;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    void *bytes = NULL;
    size_t nbytes = 0;
    static char live[64] = "another state than that of the others";
    assert_int_equal(firn_threads_new(&t, id, n, &err), FIRN_OK);
    assert_int_equal(firn_threads_part(t, "rng", live, 8, &err), FIRN_OK);
    assert_int_equal(firn_threads_part(t, "bn.mean", live, 12, &err), FIRN_OK);
    if (room > 0)
        assert_int_equal(firn_threads_part(t, "python", live, room, &err),
                         FIRN_OK);
    assert_int_equal(firn_threads_pack(t, &bytes, &nbytes, &err), FIRN_OK);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 1, &err),
                     FIRN_OK);
    assert_int_equal(firn_threads_write(bytes, nbytes, w, &err), FIRN_OK);
    assert_int_equal(firn_ckpt_commit(w, 0, &err), FIRN_OK);
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", NULL, &err), FIRN_OK);
    firn_threads_pack_free(bytes);
    firn_threads_free(t);
    return c;
}

static void refused(struct firn_threads *t, struct firn_ckpt *c,
                    const char *sentence)
{
    struct firn_error err = {0};
    void *before = NULL, *after = NULL;
    size_t nbefore = 0, nafter = 0;
    assert_int_equal(firn_threads_pack(t, &before, &nbefore, &err), FIRN_OK);
    assert_true(firn_threads_read(t, c, &err) != FIRN_OK);
    if (strstr(err.text, sentence) == NULL)
        fail_msg("'%s' has no '%s'", err.text, sentence);
    assert_int_equal(firn_threads_pack(t, &after, &nafter, &err), FIRN_OK);
    assert_int_equal(nbefore, nafter);
    assert_memory_equal(before, after, nbefore);
    firn_threads_pack_free(before);
    firn_threads_pack_free(after);
    firn_ckpt_close(c);
}

static void what_a_checkpoint_lacks_is_named_and_nothing_changes(void **state)
{
    (void)state;
    struct firn_threads *t = threads_of(all, V);
    struct firn_error err = {0};
    refused(t, checkpoint_of(all, 3, 10), "no thread 3");
    refused(t, checkpoint_of((const int[]){0, 2, 3, 10, 11}, 5, 10),
            "no thread 1");
    refused(t, checkpoint_of(all, V, 0), "no part 'python' of thread 0");
    refused(t, checkpoint_of(all, V, 60),
            "part 'python' of thread 0 has 60 bytes, not at most 39");
    struct firn_ckpt *c = checkpoint_of(all, V, 10); /* the twin */
    assert_int_equal(firn_threads_read(t, c, &err), FIRN_OK);
    enter(t, 2);
    assert_memory_equal(&generator, "another ", 8);
    assert_string_equal(hidden, "another st");
    assert_int_equal(firn_threads_read(t, c, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "thread 2 is still inside"));
    leave(t);
    firn_threads_free(t);
    t = NULL;
    assert_int_equal(firn_threads_new(&t, all, V, &err), FIRN_OK);
    assert_int_equal(firn_threads_part(t, "rng", &generator, 7, &err), FIRN_OK);
    refused(t, c, "part 'rng' of thread 0 has 8 bytes, not 7");
    firn_threads_free(t);
}

static void packed_bytes_of_any_kind_are_checked(void **state)
{
    (void)state;
    struct firn_threads *t = threads_of(all, 2);
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(firn_threads_pack(t, (void **)&bytes, &n, &err), FIRN_OK);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 1, &err),
                     FIRN_OK);
    size_t whole = 0;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc(cut + 1); /* its end is seen by a checker */
        memcpy(copy, bytes, cut);
        whole += firn_threads_write(copy, cut, w, &err) == FIRN_OK;
        free(copy);
    }
    assert_int_equal(whole, 6); /* before each of its parts */
    bytes[16 + 15] = 0x80;      /* the length of the first part */
    assert_int_equal(firn_threads_write(bytes, n, w, &err), FIRN_EINVAL);
    bytes[16 + 15] = 0;
    bytes[16 + 16] = '/'; /* its name */
    assert_int_equal(firn_threads_write(bytes, n, w, &err), FIRN_EINVAL);
    bytes[16 + 16] = 'r';
    assert_int_equal(firn_threads_write(bytes, n, w, &err), FIRN_OK);
    firn_ckpt_drop(w);
    firn_threads_pack_free(bytes);
    firn_threads_free(t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_one_process_are_as_if_alone),
        cmocka_unit_test(entering_the_thread_inside_copies_nothing),
        cmocka_unit_test(wrong_parts_and_threads_are_named),
        cmocka_unit_test(stored_parts_can_be_read_and_written),
        CASE(contexts_move_between_processes_by_checkpoint),
        CASE(what_a_checkpoint_lacks_is_named_and_nothing_changes),
        CASE(packed_bytes_of_any_kind_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
