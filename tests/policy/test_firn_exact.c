/* test_firn_exact.c - decisions of the policy firn against an exact solver.
 *
 * Random scenes of up to a dozen jobs are driven through decisions. At some of
 * them the choices that all jobs had, with their values and the GPUs of each
 * type that are up, are given to cbc as a whole: the policy's own plan, placed
 * on nodes, must be worth at least 99 % of the best there is. The bounds on
 * waiting and restarts are off: they are not part of the objective.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "math/cbc.h"
#include "policy/firn.h"
#include "scene_random.h"
#include <cmocka.h>

enum { ROUNDS = 12, COMPARED = 4 };

static const char settings[] = "firn.share=no firn.merge=no firn.wait=0 "
                               "firn.restarts=0";

/* The problem for cbc. */
struct program {
    struct milp milp;
    struct milp_col *cols;
    struct milp_row *rows;
    struct milp_term *terms;
    int nterms;
};

static struct {
    struct arena scratch;
    bool is_missing, compares;
    int n;        /* decisions compared */
    int mixed;    /* choices on several types in them */
    double worst; /* of the policy's value over the best */
} seen;

static void add_row(struct program *program, double most, int first)
{
    program->rows[program->milp.nrows++] = (struct milp_row){
        0, most, program->terms + first, program->nterms - first};
}

static int gpus_of(const struct one_choice *choice, firn_type_id type)
{
    if (choice->counts != NULL)
        return choice->counts[type];
    return choice->type == type ? choice->gpus : 0;
}

/* A column for each choice, a row for each seat and for each type. */
static void make_program(const struct one_round *round, struct program *program)
{
    const struct firn_cluster *cluster = round->view->cluster;
    int up[FIRN_TYPES_MAX] = {0}, col = 0;
    size_t ncols = 0;
    for (size_t i = 0; i < round->n; i++)
        ncols += (size_t)round->seats[i].n;
    program->cols =
        arena_alloc(&seen.scratch, (ncols + 1) * sizeof *program->cols);
    program->terms =
        arena_alloc(&seen.scratch, (1 + (size_t)cluster->ntypes) * (ncols + 1) *
                                       sizeof *program->terms);
    program->rows =
        arena_alloc(&seen.scratch, (round->n + (size_t)cluster->ntypes + 1) *
                                       sizeof *program->rows);
    for (size_t i = 0; i < round->n; i++) {
        int first = program->nterms;
        for (int c = 0; c < round->seats[i].n; c++, col++) {
            program->cols[col] = (struct milp_col){
                -round->seats[i].choices[c].value, 0, 1, true};
            program->terms[program->nterms++] = (struct milp_term){col, 1};
        }
        add_row(program, 1, first);
    }
    for (int k = 0; k < cluster->nnodes; k++)
        if (cluster->nodes[k].is_up)
            up[cluster->nodes[k].type] += cluster->nodes[k].ngpus;
    for (int t = 0; t < cluster->ntypes; t++) {
        int first = program->nterms;
        col = 0;
        for (size_t i = 0; i < round->n; i++)
            for (int c = 0; c < round->seats[i].n; c++, col++) {
                int gpus = gpus_of(&round->seats[i].choices[c], t);
                if (gpus > 0)
                    program->terms[program->nterms++] =
                        (struct milp_term){col, gpus};
                seen.mixed += round->seats[i].choices[c].counts != NULL;
            }
        add_row(program, up[t], first);
    }
    program->milp.cols = program->cols;
    program->milp.ncols = col;
    program->milp.rows = program->rows;
}

static void compare(const struct one_round *round)
{
    struct program program = {0};
    struct cbc cbc = {.deadline_s = 300};
    double value = 0;
    make_program(round, &program);
    if (program.milp.ncols == 0)
        return;
    double *x =
        arena_alloc(&seen.scratch, (size_t)program.milp.ncols * sizeof(double));
    enum cbc_answer how = cbc_solve(&cbc, &program.milp, &seen.scratch, x);
    seen.is_missing = how == CBC_MISSING;
    if (seen.is_missing)
        return;
    if (how != CBC_SOLVED)
        fail_msg("cbc %s", cbc_answer_text(how));
    for (size_t i = 0; i < round->n; i++)
        if (round->seats[i].is_placed)
            value += round->seats[i].choices[round->seats[i].chosen].value;
    double best = -milp_value(&program.milp, x);
    if (!(best > 0))
        return;
    seen.n++;
    seen.worst = fmin(seen.worst, value / best);
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct one_round round = {.one = state, .view = view, .plan = plan};
    one_decide(&round);
    if (seen.compares && !seen.is_missing)
        compare(&round);
    return FIRN_OK;
}

static void drive(uint64_t seed, unsigned kinds)
{
    struct firn_policy_def def = *firn_policy_find("firn", NULL);
    struct rng rng;
    def.decide = decide;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = scene_new(text.at, &def, settings);
    for (int i = 0; i < ROUNDS; i++) {
        seen.compares = i % (ROUNDS / COMPARED) == 0;
        scene_decide(scene, scene->now_s);
        scene_shake(scene, &rng, kinds);
        round_tick(scene->round, scene->now_s);
        arena_reset(&seen.scratch);
    }
    buf_release(&text);
    scene_free(scene);
}

static void a_decision_is_within_one_percent_of_the_best(void **unused)
{
    static const unsigned kinds[] = {SCENE_ELASTIC, SCENE_TYPES | SCENE_ELASTIC,
                                     SCENE_TYPES | SCENE_ELASTIC | SCENE_CHOOSY,
                                     SCENE_TYPES};
    (void)unused;
    seen.worst = 1;
    for (int i = 0; i < trials(8) && !seen.is_missing; i++)
        drive(9000 + (uint64_t)i, kinds[i % 4]);
    if (seen.is_missing)
        print_message("cbc is not installed\n");
    else
        print_message("%d decisions, %d mixed choices, at least %.4f of the "
                      "best\n",
                      seen.n, seen.mixed, seen.worst);
    arena_release(&seen.scratch);
    if (!seen.is_missing)
        assert_true(seen.n > 0 && seen.worst >= 0.99);
    if (!seen.is_missing && trials(8) >= 8)
        assert_true(seen.mixed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_is_within_one_percent_of_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
