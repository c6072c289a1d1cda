/* test_formats.c - what each format makes of its rows.
 *
 * The fixtures are small enough to work the expected jobs out by hand. Columns
 * are those of trace/write.h: name, submit_s, gpus, duration_s, gpus_min,
 * gpus_max, app, group, batch, priority, mem_gib, types, may_share, restart_s,
 * nominal.
 */
#include "base/buf.h"
#include "lib/trace_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void expect(const char *format, const char *want)
{
    struct firn_buf text = fixture(format);
    struct firn_buf got =
        trace_text(trace_def(format), (struct firn_bytes){text.at, text.n});
    assert_string_equal(got.at, want);
    buf_release(&got);
    buf_release(&text);
}

/* What `format` says about `text`. */
static void expect_of(const char *format, const char *text, const char *want)
{
    struct firn_buf got =
        trace_text(trace_def(format), (struct firn_bytes){text, strlen(text)});
    assert_string_equal(got.at, want);
    buf_release(&got);
}

static void plain_is_seconds_and_gangs(void **state)
{
    (void)state;
    expect("plain", "2: job 0,0,1,60,1,1,,,0,0,0,,0,-1,0\n"
                    "3: job 1,5.5,8,120.25,8,8,,,0,0,0,,0,-1,0\n"
                    "4: job 2,5.5,2,3600,2,2,,,0,0,0,,0,-1,0\n");
}

static void philly_takes_the_virtual_cluster_as_group(void **state)
{
    (void)state;
    expect("philly", "2: job 10,0,1,300,1,1,,blue,0,0,0,,0,-1,0\n"
                     "3: job 11,60,4,7200,4,4,,red,0,0,0,,0,-1,0\n"
                     "4: job 12,61,2,45,2,2,,blue,0,0,0,,0,-1,0\n");
    expect_of("philly",
              "job_id,submit_s,duration_s,num_gpus\n1,2,3,-1\n1,2,0,4\n",
              "2: bad: 'num_gpus' is -1: must be a whole number from 1 to "
              "1048576\n"
              "3: bad: 'duration_s' is 0: must be a number above 0, to "
              "1e+15\n");
}

static void pollux_work_is_spread_over_the_gpus(void **state)
{
    (void)state;
    /* 1444.077 / 1; 13614.473 / 4; 4027.984 / 8 */
    expect("pollux",
           "2: job ncf-0,12,1,1444.077,1,64,ncf,,32768,0,0,,0,15,1\n"
           "3: job bert-1,30,4,3403.61825,1,64,bert,,96,0,0,,0,120,1\n"
           "4: job cifar10-2,30,8,503.498,1,64,cifar10,,1024,0,0,,0,50,1\n");
}

static void
an_unknown_application_is_bad_and_the_known_ones_are_named(void **state)
{
    (void)state;
    expect_of("pollux",
              "name,time,application,num_replicas,batch_size\n"
              "x,0,gpt9,1,1\n",
              "2: bad: no application 'gpt9'; known: bert, cifar10, "
              "deepspeech2, imagenet, ncf, yolov3\n");
    expect_of("easyscale",
              "name,time,application,max_parallelism,batch_size,epochs,"
              "preferred_gpu\nx,0,bert,1,1,1,h100\n",
              "2: bad: 'preferred_gpu' is 'h100': must be v100, p100 or t4\n");
}

static void titan_applications_are_model_and_data_set(void **state)
{
    (void)state;
    /* 2164.069 / 2; 58.788 / 1; 307.374 / 4 */
    expect("titan",
           "2: job vit@mnist-0,5,2,1082.0345,1,64,vit@mnist,,48,0,0,,0,34.161,"
           "1\n"
           "3: job roberta-base@rte-1,9,1,58.788,1,64,roberta-base@rte,,16,0,0,"
           ",0,60.399,1\n"
           "4: job vit@frgfm#imagenette-2,9,4,76.8435,1,64,vit@frgfm#imagenette"
           ",,48,0,0,,0,34.161,1\n");
}

static void easyscale_jobs_are_elastic_up_to_their_parallelism(void **state)
{
    (void)state;
    /* 1.35 x 4 x 48.819031 / 16; 1.35 x 100 x 0.533977 / 4 on T4s, for it
     * accepts nothing else; 1.35 x 10 x 156.96 / 8, of any type, so on V100s.
     * A batch of 16 takes 1.478 times as long as one of 8: 0.739 for a sample.
     */
    expect("easyscale",
           "2: job bert-0,15,16,16.476422962500003,1,16,bert,,128,0,0,,0,20,1\n"
           "3: job ncf-1,20,4,18.02172375,1,4,ncf,,4096,0,0,t4,0,20,1\n"
           "4: job vgg19-2,31,8,264.87,1,8,vgg19,,256,0,0,,0,20,1\n");
    expect_of("easyscale",
              "name,time,application,max_parallelism,batch_size,epochs,"
              "preferred_gpu\nx,0,bert,16,16,4,v100\n",
              "2: job x,0,16,12.1760765692875,1,16,bert,,256,0,0,,0,20,1\n");
}

static void rubick_jobs_are_elastic_and_name_their_plan(void **state)
{
    (void)state;
    static const char head[] = "name,submission_time,duration,application,"
                               "num_gpus,exec_plan,is_sla\n";
    char text[400];
    expect("rubick",
           "2: job vit-0,0,2,3163.5,1,64,vit,,0,0,0,,0,-1,0\n"
           "3: job llama7-1,1639,32,779.5,1,64,llama7,,0,0,0,,0,-1,0\n"
           "4: job gpt2-2,3818,4,55.5,1,64,gpt2,,0,0,0,,0,-1,0\n");
    snprintf(text, sizeof text,
             "%sx,0,1,bert,4,244,0\ny,0,1,gpt9,4,ga,0\n"
             "z,0,1,bert,4,ga,maybe\n",
             head);
    expect_of("rubick", text,
              "2: bad: 'exec_plan' is '244', no plan for 4 GPUs\n"
              "3: bad: 'application' is 'gpt9', no model with measured "
              "plans\n"
              "4: bad: 'is_sla' is 'maybe': must be 0 or 1\n");
}

static void muri_keeps_a_recorded_duration_unless_it_is_stale(void **state)
{
    (void)state;
    /* 100 x 200 = 20000 ms is within one iteration of 20100: kept; 50 x 190 =
     * 9500 ms is not near 90000: iterations win; 7 x 214 = 1498: kept. */
    expect("muri", "2: job 0,0,1,20.1,1,1,dqn,,128,1,0,,0,-1,0\n"
                   "3: job 1,1.5,8,9.5,8,8,bert,,32,0,0,,0,-1,0\n"
                   "4: job 2,1.5,4,1.5,4,4,vgg16,,64,0,0,,0,-1,0\n");
    expect_of("muri",
              "job_id,num_gpu,submit_time,iterations,model_name,duration,"
              "iteration_time\n0,1,0,0,dqn,5000,100\n1,1,0,0,dqn,50,100\n",
              "2: bad: 'iterations' x 'iteration_time' is 0 ms: must be above "
              "0, to 1e15\n"
              "3: job 1,0,1,0.05,1,1,dqn,,0,0,0,,0,-1,0\n");
}

static void tiresias_is_seconds(void **state)
{
    (void)state;
    expect("tiresias", "2: job 0,0,1,160,1,1,vgg19,,0,0,0,,0,-1,0\n"
                       "3: job 1,30,8,150,8,8,vgg11,,0,0,0,,0,-1,0\n"
                       "4: job 2,50,2,120,2,2,inception4,,0,0,0,,0,-1,0\n");
}

static void chronus_is_minutes_and_jobs_without_gpus_are_ignored(void **state)
{
    (void)state;
    expect("chronus",
           "2: job 0,60,4,1200,4,4,resnet101,blue,0,0,0,,0,-1,0\n"
           "3: ignored\n"
           "4: job 2,180,1,6000,1,1,mobilenet_v2,red,0,0,0,,0,-1,0\n"
           "5: job 3,240,2,600,2,2,mobilenet_v2,blue,0,0,0,,0,-1,0\n");
}

static void gavel_durations_are_steps_over_measured_rates(void **state)
{
    (void)state;
    /* 2824 / 28.24; 945195 / 9.45195 on 4; A3C is measured on 1 only */
    expect("gavel",
           "2: job blue/0,0,1,100,1,1,LM (batch size 80),blue,80,0,0,,0,-1,1\n"
           "3: job blue/1,6,4,100000,4,4,ResNet-50 (batch size "
           "64),blue,256,0,0,,0,-1,1\n"
           "4: job red/0,7.5,2,100000,2,2,A3C,red,0,0,0,,0,-1,1\n");
    /* 12 GPUs: the rate of 8 */
    expect_of("gavel",
              "trace,job,model,total_steps,num_gpus,priority,slo,arrival_s\n"
              "small,7,ResNet-50 (batch size 64),173032,12,1,-1.000000,3\n",
              "2: job small/7,3,12,10000,12,12,ResNet-50 (batch size "
              "64),small,768,1,0,,0,-1,1\n");
    static const char unknown[] =
        "job,model,total_steps,arrival_s,num_gpus\n1,GPT,5,5,5\n";
    struct firn_buf got = trace_text(
        trace_def("gavel"), (struct firn_bytes){unknown, sizeof unknown - 1});
    assert_memory_equal(got.at, "2: bad: no model 'GPT'; known: A3C, Cy", 38);
    buf_release(&got);
}

static void alibaba_pods_name_types_and_share(void **state)
{
    (void)state;
    expect("alibaba",
           "2: job pod-0,0,1,990,1,1,,,0,0,0,,0,-1,0\n"
           "3: job pod-1,20,1,60,1,1,,,0,0,0,v100-16|v100|t4,1,-1,0\n"
           "4: ignored\n"
           "5: job pod-3,30,8,500,8,8,,,0,0,0,g2,0,-1,0\n");
}

static void an_alibaba_list_without_times_is_refused(void **state)
{
    (void)state;
    expect_of("alibaba",
              "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n",
              "open: a list of pods without creation_time and deletion_time: "
              "there is nothing to replay\n");
}

static void firn_reads_every_column_and_defaults_the_rest(void **state)
{
    (void)state;
    expect("firn",
           "4: job alpha,0,4,3600.5,4,4,resnet,team-a,256,1,12.5,v100|a100,1,"
           "30,0\n"
           "5: job \"be\"\"ta, second\",10.25,2,90,1,8,,,0,0,0,,0,-1,1\n"
           "6: job gamma,10.25,1,0.001,1,1,,team-b,0,-2,0,,0,-1,0\n");
    expect_of("firn",
              "#firn-trace 1\nduration_s,gpus,submit_s,name\n60,2,1,a\n",
              "3: job a,1,2,60,2,2,,,0,0,0,,0,-1,0\n");
}

static void firn_refuses_columns_it_does_not_know(void **state)
{
    (void)state;
    expect_of("firn", "#firn-trace 1\nname,submit_s,gpus,duration_s,gpu_min\n",
              "open: header: no column 'gpu_min' in this format; nearest is "
              "gpus_min\n");
    expect_of("firn", "#firn-trace 1\nname,submit_s,gpus\n",
              "open: header: no column 'duration_s'\n");
    expect_of("firn", "#firn-trace 2\nname,submit_s,gpus,duration_s\n",
              "open: the first line is not '#firn-trace 1'\n");
    expect_of("firn",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,restart_s"
              "\na,0,2,1,3,\na,0,2,1,2,-0.5\n",
              "3: bad: 'gpus' is 2, not within 3 to 2\n"
              "4: bad: 'restart_s' is -0.5: must be -1, or from 0\n");
}

static void firn_models_may_leave_their_gpus_open(void **state)
{
    (void)state;
    expect_of("firn",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,batch,seq\n"
              "a,0,0,60,gpt2-xl,8,1024\nb,0,4,60,GPT2,8,512\n"
              "c,0,0,60,resnet,8,\nd,0,0,60,gpt2,8,0\n"
              "e,0,1,60,gpt,8,64\nf,0,1,60,gpt2,,64\ng,0,1,60,gpt2,8,\n",
              "3: job a,0,0,60,,,gpt2-xl,,8,0,0,,0,-1,0,1024\n"
              "4: job b,0,4,60,4,4,GPT2,,8,0,0,,0,-1,0,512\n"
              "5: bad: 'gpus' is 0: must be a whole number from 1 to 1048576\n"
              "6: bad: 'gpus' is 0 for no language model\n"
              "7: bad: no model 'gpt'; did you mean 'gpt2'?\n"
              "8: bad: 'seq' is 64 and there is no batch\n"
              "9: job g,0,1,60,1,1,gpt2,,8,0,0,,0,-1,0\n");
}

/* An empty field and a missing column both mean that it may go anywhere. */
static void a_column_marks_jobs_that_keep_to_one_type(void **state)
{
    (void)state;
    expect_of("firn",
              "#firn-trace 1\nname,one_type,submit_s,gpus,duration_s\n"
              "a,1,0,2,60\nb,0,0,2,60\nc,,0,2,60\nd,2,0,2,60\ne,D1,0,2,60\n",
              "3: job a,0,2,60,2,2,,,0,0,0,,0,-1,0,1\n"
              "4: job b,0,2,60,2,2,,,0,0,0,,0,-1,0\n"
              "5: job c,0,2,60,2,2,,,0,0,0,,0,-1,0\n"
              "6: bad: 'one_type' is 2: must be a whole number from 0 to 1\n"
              "7: bad: 'one_type' is D1: must be a whole number from 0 to 1\n");
    expect_of("firn", "#firn-trace 1\nname,submit_s,gpus,duration_s,onetype\n",
              "open: header: no column 'onetype' in this format; nearest is "
              "one_type\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_is_seconds_and_gangs),
        cmocka_unit_test(philly_takes_the_virtual_cluster_as_group),
        cmocka_unit_test(pollux_work_is_spread_over_the_gpus),
        cmocka_unit_test(
            an_unknown_application_is_bad_and_the_known_ones_are_named),
        cmocka_unit_test(titan_applications_are_model_and_data_set),
        cmocka_unit_test(easyscale_jobs_are_elastic_up_to_their_parallelism),
        cmocka_unit_test(rubick_jobs_are_elastic_and_name_their_plan),
        cmocka_unit_test(muri_keeps_a_recorded_duration_unless_it_is_stale),
        cmocka_unit_test(tiresias_is_seconds),
        cmocka_unit_test(chronus_is_minutes_and_jobs_without_gpus_are_ignored),
        cmocka_unit_test(gavel_durations_are_steps_over_measured_rates),
        cmocka_unit_test(alibaba_pods_name_types_and_share),
        cmocka_unit_test(an_alibaba_list_without_times_is_refused),
        cmocka_unit_test(firn_reads_every_column_and_defaults_the_rest),
        cmocka_unit_test(firn_refuses_columns_it_does_not_know),
        cmocka_unit_test(firn_models_may_leave_their_gpus_open),
        cmocka_unit_test(a_column_marks_jobs_that_keep_to_one_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
