/* test_allot.c - shares of columns: by hand, against all matrices, against a
 * genetic search.
 */
#include "allot_random.h"
#include "base/fmath.h"
#include "math/allot.h"
#include "plain_nsga.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what every answer keeps ---- */

static void expect_valid(const struct allot_problem *p,
                         const struct allot_cells *row, const char *what)
{
    int left[256], spread[256] = {0};
    memcpy(left, p->room, (size_t)p->cols * sizeof *left);
    for (int i = 0; i < p->rows; i++) {
        int sum = 0;
        for (int k = 0; k < row[i].n; k++) {
            int col = row[i].at[k].col;
            sum += row[i].at[k].count;
            left[col] -= row[i].at[k].count;
            spread[col] += row[i].n > 1;
            bool suits = p->group[col] == p->group[row[i].at[0].col] &&
                         (p->row[i].groups >> p->group[col] & 1) != 0;
            if (row[i].at[k].count < 1 || left[col] < 0 || !suits ||
                (k > 0 && row[i].at[k - 1].col >= col) ||
                (p->one_spread && spread[col] > 1))
                fail_msg("%s: row %d is wrong in column %d", what, i, col);
        }
        if (sum != 0 && (sum < p->row[i].least || sum > p->row[i].most))
            fail_msg("%s: row %d has %d", what, i, sum);
    }
}

static struct allot_answer solve(const struct allot_problem *p,
                                 struct arena *arena, const char *what)
{
    struct allot_answer answer = allot_run(p, arena);
    expect_valid(p, answer.row, what);
    double fitness = allot_fitness(p, answer.row);
    if (fabs(fitness - answer.fitness) > 1e-9 * fitness)
        fail_msg("%s: fitness %g, reported as %g", what, fitness,
                 answer.fitness);
    return answer;
}

/* ---- by hand ---- */

static double linear(void *ctx, int row, int group, int cols, int sum)
{
    (void)row;
    (void)group;
    (void)cols;
    return sum * *(const double *)ctx;
}

struct hand {
    struct allot_row row[4];
    struct allot_problem p;
    struct arena arena;
    int room[16], group[16];
    double slope;
};

static void open_hand(struct hand *hand, int rows, int cols)
{
    *hand = (struct hand){.slope = 0.25};
    for (int c = 0; c < cols; c++)
        hand->room[c] = 4;
    for (int i = 0; i < rows; i++)
        hand->row[i] =
            (struct allot_row){.least = 1, .most = 8, .groups = 1, .change = 1};
    hand->p = (struct allot_problem){.rows = rows,
                                     .cols = cols,
                                     .row = hand->row,
                                     .room = hand->room,
                                     .group = hand->group,
                                     .value = linear,
                                     .ctx = &hand->slope,
                                     .power = -1,
                                     .offset = 1e-3,
                                     .one_spread = true,
                                     .effort = 20};
}

static int sum_of(struct allot_cells row)
{
    int sum = 0;
    for (int k = 0; k < row.n; k++)
        sum += row.at[k].count;
    return sum;
}

static void equal_rows_share_a_column_equally(void **state)
{
    (void)state;
    struct hand hand;
    open_hand(&hand, 2, 1);
    struct allot_answer answer = solve(&hand.p, &hand.arena, "two rows");
    assert_int_equal(sum_of(answer.row[0]), 2);
    assert_int_equal(sum_of(answer.row[1]), 2);
    /* u = 2 x 0.25 each, so the mean is 0.501. */
    assert_true(fabs(answer.fitness - 0.501) < 1e-12);
    arena_release(&hand.arena);
}

/* Power 1 asks for the sum, which a row of twice the slope serves best. */
static double steeper(void *ctx, int row, int group, int cols, int sum)
{
    return linear(ctx, row, group, cols, sum) * (row == 0 ? 2 : 1);
}

static void the_power_says_how_much_fairness_counts(void **state)
{
    (void)state;
    static const struct {
        double power;
        int room, first, second;
    } cases[] = {
        {1, 4, 4, 0},   /* 2 + 0; the sum */
        {0, 4, 2, 2},   /* 1 x 0.5; the product */
        {-1, 4, 2, 2},  /* 1/1 + 1/0.5 = 3 against 1/0.5 + 1/0.75 = 3.3 */
        {-1, 3, 1, 2},  /* 1/0.5 + 1/0.5 = 4 against 1/1 + 1/0.25 = 5 */
        {0.5, 3, 2, 1}, /* 1 + 0.5 against 0.71 + 0.71 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand hand;
        open_hand(&hand, 2, 1);
        hand.p.value = steeper;
        hand.p.power = cases[i].power;
        hand.room[0] = cases[i].room;
        struct allot_answer answer = solve(&hand.p, &hand.arena, "power");
        assert_int_equal(sum_of(answer.row[0]), cases[i].first);
        assert_int_equal(sum_of(answer.row[1]), cases[i].second);
        arena_release(&hand.arena);
    }
}

/* Row 0 has 2 of column 0 and may have 4 if it changes: u = 0.5 as it is, and
 * 1 x change otherwise. */
static void a_row_changes_when_the_gain_is_worth_it(void **state)
{
    (void)state;
    const struct allot_cell had = {0, 2};
    for (int dear = 0; dear < 2; dear++) {
        struct hand hand;
        open_hand(&hand, 1, 1);
        hand.row[0].now = (struct allot_cells){&had, 1};
        hand.row[0].change = dear ? 0.49 : 0.51;
        struct allot_answer answer = solve(&hand.p, &hand.arena, "change");
        assert_int_equal(sum_of(answer.row[0]), dear ? 2 : 4);
        arena_release(&hand.arena);
    }
}

static void spread_rows_keep_apart(void **state)
{
    (void)state;
    struct hand hand;
    open_hand(&hand, 2, 3);
    hand.row[0].least = hand.row[0].most = 6;
    hand.row[1].least = hand.row[1].most = 6;
    struct allot_answer answer = solve(&hand.p, &hand.arena, "apart");
    assert_int_equal(sum_of(answer.row[0]) + sum_of(answer.row[1]), 6);
    hand.p.one_spread = false;
    answer = solve(&hand.p, &hand.arena, "together");
    assert_int_equal(sum_of(answer.row[0]) + sum_of(answer.row[1]), 12);
    arena_release(&hand.arena);
}

static void a_row_is_in_one_group_only(void **state)
{
    (void)state;
    struct hand hand;
    open_hand(&hand, 1, 4);
    hand.group[1] = hand.group[3] = 1;
    hand.room[3] = 5;
    hand.row[0].groups = 3;
    hand.row[0].most = 16;
    struct allot_answer answer = solve(&hand.p, &hand.arena, "groups");
    assert_int_equal(sum_of(answer.row[0]), 9);
    hand.row[0].groups = 1;
    answer = solve(&hand.p, &hand.arena, "one group");
    assert_int_equal(sum_of(answer.row[0]), 8);
    hand.row[0].least = 9;
    answer = solve(&hand.p, &hand.arena, "too large");
    assert_int_equal(answer.row[0].n, 0);
    arena_release(&hand.arena);
}

static void a_problem_without_rows_or_room_has_an_answer(void **state)
{
    (void)state;
    struct hand hand;
    open_hand(&hand, 0, 2);
    assert_null(allot_run(&hand.p, &hand.arena).row);
    open_hand(&hand, 2, 2);
    hand.room[0] = hand.room[1] = 0;
    struct allot_answer answer = solve(&hand.p, &hand.arena, "no room");
    assert_int_equal(answer.row[0].n + answer.row[1].n, 0);
    arena_release(&hand.arena);
}

static void work_is_bounded(void **state)
{
    (void)state;
    struct allot_case it;
    struct arena arena = {0};
    allot_case_draw(&it, 30, 16, 5);
    it.problem.effort = 10000;
    it.problem.max_work = 3000;
    assert_in_range(solve(&it.problem, &arena, "bound").work, 2900, 3100);
    arena_release(&arena);
    allot_case_release(&it);
}

/* ---- against all matrices ---- */

enum { SMALL = 3 }; /* rows and columns */

/* Tries every matrix, cell by cell; the best fitness. */
static double best_of_all(const struct allot_problem *p,
                          struct allot_cell cells[SMALL][SMALL], int at)
{
    if (at == SMALL * SMALL) {
        struct allot_cells row[SMALL];
        struct allot_cell packed[SMALL][SMALL];
        int spread[SMALL] = {0};
        for (int i = 0; i < SMALL; i++) {
            int n = 0;
            for (int c = 0; c < SMALL; c++)
                if (cells[i][c].count > 0)
                    packed[i][n++] = cells[i][c];
            row[i] = (struct allot_cells){packed[i], n};
            int sum = sum_of(row[i]);
            if (sum > 0 && (sum < p->row[i].least || sum > p->row[i].most))
                return 0;
            for (int k = 0; k < n; k++)
                if (n > 1 && spread[packed[i][k].col]++ > 0 && p->one_spread)
                    return 0;
        }
        return allot_fitness(p, row);
    }
    int i = at / SMALL, c = at % SMALL, left = p->room[c];
    double best = 0;
    for (int k = 0; k < i; k++)
        left -= cells[k][c].count;
    for (int count = 0; count <= left; count++) {
        cells[i][c] = (struct allot_cell){c, count};
        best = fmax(best, best_of_all(p, cells, at + 1));
    }
    return best;
}

/* Rooms of 1 to 3, gangs among the rows, the rows of an earlier answer. */
static void small_problems_come_out_as_the_best_of_all_matrices(void **state)
{
    (void)state;
    int cases = getenv("FIRN_QUICK") ? 20 : 300, missed = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)cases; seed++) {
        struct allot_case it;
        struct rng rng;
        struct allot_cell cells[SMALL][SMALL];
        int room[SMALL];
        char what[32];
        allot_case_draw(&it, SMALL, SMALL, seed);
        rng_seed(&rng, seed);
        for (int c = 0; c < SMALL; c++) {
            room[c] = 1 + (int)rng_below(&rng, 3);
            if (rng_below(&rng, 4) == 0)
                it.row[c].least = it.row[c].most;
        }
        it.problem.room = room;
        it.problem.one_spread = rng_below(&rng, 2);
        it.problem.effort = 30;
        snprintf(what, sizeof what, "seed %d", (int)seed);
        double got = solve(&it.problem, &it.arena, what).fitness;
        double best = best_of_all(&it.problem, cells, 0);
        if (got < best * (1 - 1e-9))
            missed++;
        if (got > best * (1 + 1e-9) || got < 0.97 * best)
            fail_msg("%s: %g, the best is %g", what, got, best);
        allot_case_release(&it);
    }
    print_message("%d of %d are not the best\n", missed, cases);
    assert_true(missed * 15 <= cases);
}

/* ---- against a genetic search ---- */

/* 100 x 100, as the paper's authors ran it; less under a sanitizer. */
static void answers_are_no_worse_than_a_genetic_search(void **state)
{
    (void)state;
    int size = getenv("FIRN_QUICK") ? 20 : 100, below = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct allot_case it;
        struct arena arena = {0};
        int matrix[30 * 16];
        allot_case_draw(&it, 30, 16, seed);
        it.problem.effort = 16;
        struct nsga nsga = {
            .problem = &it.problem, .population = size, .generations = size};
        rng_seed(&nsga.rng, seed);
        double theirs = nsga_run(&nsga, NULL, 0, matrix, NULL, NULL).fitness;
        double ours = solve(&it.problem, &arena, "genetic").fitness;
        print_message("seed %d: %.6f, the genetic search %.6f: ratio %.4f\n",
                      (int)seed, ours, theirs, ours / theirs);
        below += ours < theirs;
        assert_true(ours >= 0.99 * theirs);
        arena_release(&arena);
        allot_case_release(&it);
    }
    assert_true(below <= 1);
}

static void answers_are_valid_repeatable_and_no_worse_than_staying(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct allot_case it;
        struct arena arena = {0};
        struct allot_cells stay[40];
        int rows = 5 + (int)seed % 36;
        allot_case_draw(&it, rows, 8, seed);
        it.problem.effort = (int)seed % 5;
        for (int i = 0; i < rows; i++)
            stay[i] = it.row[i].now;
        struct allot_answer a = solve(&it.problem, &arena, "random");
        struct allot_answer b = solve(&it.problem, &arena, "again");
        assert_true(a.fitness == b.fitness && a.work == b.work);
        assert_true(a.fitness >= allot_fitness(&it.problem, stay) * (1 - 1e-9));
        arena_release(&arena);
        allot_case_release(&it);
    }
}

/* ---- the objectives of the Pollux artifact, from a run of its code ---- */

/* 16 nodes x 4 GPUs, three jobs without a learned model: speedup r / 22, scaled
 * by 16/64. Ages 600, 60 and 30 s, one restart of the first. The first holds 4
 * GPUs on node 0, the second 2 on node 1, the third none. */
static void open_three(struct hand *hand)
{
    static const struct allot_cell had[] = {{0, 4}, {1, 2}};
    open_hand(hand, 3, 16);
    hand->slope = 1.0 / 22 * 16 / 64;
    hand->row[0].change = (600.0 - 30) / 630;
    hand->row[1].change = 60.0 / 90;
    hand->row[2].change = 30.0 / 60;
    hand->row[0].now = (struct allot_cells){&had[0], 1};
    hand->row[1].now = (struct allot_cells){&had[1], 1};
}

static void the_objectives_are_those_of_the_artifact(void **state)
{
    (void)state;
    static const struct {
        int first[3], third; /* of job 0 on nodes 0, 1, 2; of job 2 on 2 */
        double fitness, utility;
    } cases[] = {
        {{4, 0, 0}, 0, 0.00282042, 0.03409091},
        {{4, 0, 4}, 0, 0.00284587, 0.03787879},
        {{4, 0, 0}, 1, 0.0140626, 0.02651515},
        {{2, 0, 0}, 4, 0.02295905, 0.03030303},
    };
    struct hand hand;
    open_three(&hand);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int matrix[3 * 16] = {0};
        memcpy(matrix, cases[i].first, sizeof cases[i].first);
        matrix[16 + 1] = 2;
        matrix[32 + 2] = cases[i].third;
        struct nsga_score score = nsga_score(&hand.p, matrix);
        assert_true(fabs(score.fitness - cases[i].fitness) < 1e-8);
        assert_true(fabs(score.utility * 4 - cases[i].utility) < 1e-8);
    }
    const struct allot_cell moved[] = {{0, 2}, {1, 2}, {2, 4}};
    const struct allot_cells row[] = {
        {&moved[0], 1}, {&moved[1], 1}, {&moved[2], 1}};
    assert_true(fabs(allot_fitness(&hand.p, row) - 0.02295905) < 1e-8);
}

static void the_genetic_search_repairs_as_the_artifact(void **state)
{
    (void)state;
    static const int cases[][2][9] = {
        {{4, 4, 0, 0, 2, 2, 3, 0, 0}, {4, 4, 0, 0, 0, 2, 0, 0, 0}},
        {{2, 3, 0, 0, 2, 2, 3, 0, 3}, {2, 3, 0, 0, 0, 2, 0, 0, 0}},
    };
    struct hand hand;
    open_hand(&hand, 3, 3);
    struct nsga nsga = {.problem = &hand.p};
    rng_seed(&nsga.rng, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int matrix[9];
        memcpy(matrix, cases[i][0], sizeof matrix);
        nsga_repair(&nsga, matrix);
        assert_memory_equal(matrix, cases[i][1], sizeof matrix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_rows_share_a_column_equally),
        cmocka_unit_test(the_power_says_how_much_fairness_counts),
        cmocka_unit_test(a_row_changes_when_the_gain_is_worth_it),
        cmocka_unit_test(spread_rows_keep_apart),
        cmocka_unit_test(a_row_is_in_one_group_only),
        cmocka_unit_test(a_problem_without_rows_or_room_has_an_answer),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(small_problems_come_out_as_the_best_of_all_matrices),
        cmocka_unit_test(answers_are_no_worse_than_a_genetic_search),
        cmocka_unit_test(
            answers_are_valid_repeatable_and_no_worse_than_staying),
        cmocka_unit_test(the_objectives_are_those_of_the_artifact),
        cmocka_unit_test(the_genetic_search_repairs_as_the_artifact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
