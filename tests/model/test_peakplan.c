/* test_peakplan.c - the plan search beside one that tries everything.
 *
 * The slow search counts each way by firn_peak_of() and times it on each type
 * by firn_peak_step_s(), keeps all plans and sorts them. The fast one must find
 * the same best plans and the same number of plans.
 */
#include <firn/peakplan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

enum { PLANS_MAX = 4096, KEPT = 12, TYPES = 3, BATCH = 16 };

static const struct firn_llm_gpus types[TYPES] = {
    {.name = "a100", .mem_gib = 80, .speed = 1, .node_gpus = 8, .count = 16},
    {.name = "t4", .mem_gib = 15, .speed = 1, .node_gpus = 4, .count = 8},
    {.name = "h100", .mem_gib = 80, .speed = 1, .node_gpus = 8, .count = 8},
};

struct slow {
    struct firn_peak_plan plans[PLANS_MAX];
    size_t n;
};

static void slow_way(struct slow *s, struct firn_peak_job *job)
{
    int mine = BATCH / job->dp, ngpus = job->tp * job->pp * job->dp;
    for (int passes = 1; passes <= mine; passes++) {
        if (mine % passes != 0)
            continue;
        job->micro_batch = mine / passes;
        job->micro_batches = passes;
        job->keeps_gradients = passes > 1;
        struct firn_peak m = firn_peak_of(job);
        if (m.device_mib > 80 * 1024)
            continue;
        for (int i = 0; i < TYPES; i++) {
            const struct firn_llm_gpus *g = &types[i];
            if (m.device_mib > g->mem_gib * 1024 || ngpus > g->count ||
                job->tp > g->node_gpus)
                continue;
            struct firn_llm_speed v = firn_llm_speed_of(g->name, g->speed);
            double step_s = firn_peak_step_s(job, passes, g, &v);
            assert_true(s->n < PLANS_MAX);
            s->plans[s->n++] = (struct firn_peak_plan){
                .type = i,
                .ngpus = ngpus,
                .device_mib = m.device_mib,
                .samples_s_gpu = BATCH / step_s / ngpus};
        }
        if (passes >= job->pp)
            break;
    }
}

static void slow_search(struct slow *s, struct firn_peak_job job)
{
    for (job.tp = 1; job.tp <= 8; job.tp *= 2)
        for (job.pp = 1; job.pp <= 4; job.pp++)
            for (job.dp = 1; job.dp <= BATCH; job.dp *= 2)
                for (job.zero = 0; job.zero <= (job.dp > 1 ? 3 : 0); job.zero++)
                    if (job.arch.heads % job.tp == 0 &&
                        job.arch.layers % job.pp == 0 &&
                        job.tp * job.pp * job.dp <= 16)
                        slow_way(s, &job);
}

static int best_first(const void *a, const void *b)
{
    const struct firn_peak_plan *x = a, *y = b;
    return (x->samples_s_gpu < y->samples_s_gpu) -
           (x->samples_s_gpu > y->samples_s_gpu);
}

static void the_search_finds_what_trying_everything_finds(void **state)
{
    static const char *const models[] = {"llama-3.1-8b", "gemma-2b",
                                         "qwen2.5-1.5b"};
    static struct slow slow;
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        struct firn_peak_job job = {.seq = 1024,
                                    .micro_batch = 1,
                                    .mode = FIRN_MODE_BF16,
                                    .recompute = FIRN_RECOMPUTE_LAYERS};
        struct firn_peak_plan best[KEPT];
        struct firn_peak_search search = {.types = types,
                                          .ntypes = TYPES,
                                          .batch = BATCH,
                                          .pp_max = 4,
                                          .has_zero = true,
                                          .has_accumulation = true};
        assert_int_equal(firn_arch_find(&job.arch, models[k], NULL), FIRN_OK);
        assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
        slow.n = 0;
        slow_search(&slow, job);
        qsort(slow.plans, slow.n, sizeof *slow.plans, best_first);
        size_t n = firn_peak_plans(&job, &search, best, KEPT, NULL);
        assert_int_equal(n, slow.n);
        assert_true(n > KEPT);
        for (int i = 0; i < KEPT; i++) {
            double want = slow.plans[i].samples_s_gpu;
            assert_true(fabs(best[i].samples_s_gpu / want - 1) < 1e-9);
            assert_true(best[i].device_mib <=
                        types[best[i].type].mem_gib * 1024);
        }
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_search_finds_what_trying_everything_finds),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
