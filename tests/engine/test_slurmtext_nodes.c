/* test_slurmtext_nodes.c - nodes of Slurm and their GPUs are read, in all ways
 * to name them; anything else is refused.
 *
 * The lists and states are those of Slurm 22.05.8 with four GPUs in each node.
 * Lines are put together from a frame, for they are long.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "engine/slurmtext.h"
#include "lib/trials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static struct firn_bytes bytes(const char *text)
{
    return (struct firn_bytes){text, strlen(text)};
}

static const char frame[] =
    "NodeName=%s Arch=x86_64 CoresPerSocket=1  CPUAlloc=5 CPUEfctv=16 "
    "CPUTot=16 CPULoad=0.75 AvailableFeatures=a100 ActiveFeatures=a100 "
    "Gres=%s GresDrain=N/A GresUsed=%s NodeAddr=127.0.0.1 NodeHostName=host "
    "Port=18001 Version=22.05.8 OS=Linux 6.1.0 #1 SMP State=BAD @0  "
    "RealMemory=64000 AllocMem=0 FreeMem=23265 Sockets=16 Boards=1 State=%s "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=main,inbox  BootTime=2026-01-02T03:04:05 "
    "SlurmdStartTime=2026-01-02T03:04:06 LastBusyTime=2026-01-02T03:04:06 "
    "CfgTRES=cpu=16,mem=62.50G,billing=16 AllocTRES=cpu=5 CapWatts=n/a "
    "CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 "
    "ExtSensorsTemp=n/s%s\n";

/* A node that has not been there yet. */
static const char stranger[] =
    "NodeName=c1 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) GresDrain=N/A "
    "GresUsed=gpu:0,shard:0 NodeAddr=127.0.0.1 NodeHostName=host Port=18190  "
    "RealMemory=100 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1 State=UNKNOWN "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=main,inbox  BootTime=None SlurmdStartTime=None "
    "LastBusyTime=Unknown CfgTRES=cpu=2,mem=100M,billing=2 AllocTRES= "
    "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s "
    "ExtSensorsWatts=0 ExtSensorsTemp=n/s\n";

struct line {
    const char *gres, *used, *state, *tail;
};

static void put_line(struct firn_buf *out, const char *name, struct line line)
{
    buf_printf(out, frame, name, line.gres, line.used,
               line.state != NULL ? line.state : "IDLE",
               line.tail != NULL ? line.tail : "");
}

/* One node; the caller releases it. */
static struct slurm_nodes one(struct line line)
{
    struct firn_buf text = {0};
    struct slurm_nodes nodes;
    struct firn_error err;
    put_line(&text, "n1", line);
    assert_int_equal(
        slurm_nodes_read(&nodes, (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    assert_int_equal(nodes.at.n, 1);
    buf_release(&text);
    return nodes;
}

/* "COUNTS a100 4 gpus, shards 0, used 0-0,2 (3)", or "... used 2 of any". */
static void expect(struct line line, const char *wanted)
{
    struct slurm_nodes nodes = one(line);
    const struct slurm_node *node = &nodes.at.at[0];
    struct firn_buf got = {0};
    buf_printf(&got, "%s '%s' %d", node->naming ? "slots" : "counts",
               node->type, node->ngpus);
    if (node->shards_per_gpu > 0)
        buf_printf(&got, " %s %d", node->is_mps ? "mps" : "shards",
                   node->shards_per_gpu);
    buf_puts(&got, " used");
    for (int i = 0; i < FIRN_NODE_GPUS_MAX && node->has_indices; i++)
        if (node->used[i / 64] >> i % 64 & 1)
            buf_printf(&got, " %d", i);
    if (!node->has_indices)
        buf_printf(&got, " any %d", node->nused);
    int nbits = 0;
    for (int i = 0; i < 16; i++)
        nbits += __builtin_popcountll(node->used[i]);
    assert_true(!node->has_indices || nbits == node->nused);
    assert_string_equal(got.at, wanted);
    buf_release(&got);
    slurm_nodes_release(&nodes);
}

static void gpus_by_counts_have_their_indices(void **state)
{
    (void)state;
    expect((struct line){.gres = "gpu:a100:4,shard:a100:16",
                         .used = "gpu:a100:3(IDX:0-2),shard:a100:0(IDX:N/A)"},
           "counts 'a100' 4 used 0 1 2");
    expect((struct line){.gres = "gpu:v100:4,shard:v100:16",
                         .used = "gpu:v100:1(IDX:1),shard:v100:1(IDX:0)"},
           "counts 'v100' 4 used 0 1");
    expect((struct line){.gres = "gpu:a100:4(S:0-1),shard:a100:8(S:0-1)",
                         .used = "gpu:a100:2(IDX:1,3),shard:a100:1(IDX:2)"},
           "counts 'a100' 4 used 1 2 3");
    expect((struct line){.gres = "gpu:a100:2(S:0),gpu:a100:2(S:1)",
                         .used = "gpu:a100:0(IDX:N/A)"},
           "counts 'a100' 4 used");
    expect((struct line){.gres = "gpu:3090:2,bandwidth:lustre:4G",
                         .used = "gpu:3090:1(IDX:1),bandwidth:lustre:9M"},
           "counts '3090' 2 used 1");
    expect((struct line){.gres = "gpu:l40s:2", .used = "gpu:l40s:0(IDX:N/A)"},
           "counts 'l40s' 2 used");
}

static void gpus_without_a_type_are_only_counted(void **state)
{
    (void)state;
    expect((struct line){.gres = "gpu:4", .used = "gpu:2,shard:0"},
           "counts 'gpu' 4 used any 2");
    expect((struct line){.gres = "gpu:4", .used = "gpu:0"},
           "counts 'gpu' 4 used");
    expect((struct line){.gres = "gpu", .used = "gpu:1"},
           "counts 'gpu' 1 used any 1");
    expect((struct line){.gres = "gpu:4", .used = "gpu:3,shard:9"},
           "counts 'gpu' 4 used any 4");
}

static void gpus_by_slots_have_their_indices_in_their_types(void **state)
{
    (void)state;
    expect(
        (struct line){
            .gres = "gpu:a100s0:1,gpu:a100s1:1,gpu:a100s2:1,gpu:a100s3:1,"
                    "shard:a100s0:4,shard:a100s1:4,shard:a100s2:4,"
                    "shard:a100s3:4",
            .used = "gpu:a100s0:0(IDX:N/A),gpu:a100s1:1(IDX:1),"
                    "gpu:a100s2:0(IDX:N/A),gpu:a100s3:1(IDX:3),"
                    "shard:a100s0:1(IDX:0),shard:a100s1:0(IDX:N/A),"
                    "shard:a100s2:0(IDX:N/A),shard:a100s3:0(IDX:N/A)"},
        "slots 'a100' 4 shards 4 used 0 1 3");
    expect((struct line){.gres = "gpu:a100s0:1,gpu:a100s1:1,mps:a100s0:100,"
                                 "mps:a100s1:100",
                         .used = "gpu:a100s0:0(IDX:N/A),gpu:a100s1:0(IDX:N/A),"
                                 "mps:a100s0:0(IDX:N/A),mps:a100s1:1(IDX:1)"},
           "slots 'a100' 2 used 1"); /* of one GPU at a time */
    expect((struct line){.gres = "gpu:a100s0:1,mps:a100s0:100",
                         .used = "gpu:a100s0:0(IDX:N/A),mps:a100s0:1(IDX:0)"},
           "slots 'a100' 1 mps 100 used 0");
    expect((struct line){.gres = "gpu:a100s0:1", .used = "gpu:a100s0:0"},
           "slots 'a100' 1 used");
    expect((struct line){.gres = "gpu:xs1:1,gpu:xs0:1", .used = "gpu:xs1:1"},
           "slots 'x' 2 used 1");
}

static void shares_that_are_not_the_same_for_all_gpus_do_not_count(void **state)
{
    (void)state;
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1,shard:as0:4,shard:as1:2",
                         .used = "gpu:as0:0"},
           "slots 'a' 2 used");
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1,shard:as0:4",
                         .used = "gpu:as0:0"},
           "slots 'a' 2 used");
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1,shard:8",
                         .used = "gpu:as0:0"},
           "slots 'a' 2 used");
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1,shard:bs0:4,shard:bs1:4",
                         .used = "gpu:as0:0"},
           "slots 'a' 2 used");
}

static void used_gpus_without_an_index_are_counted(void **state)
{
    (void)state;
    expect((struct line){.gres = "gpu:a:4", .used = "gpu:a:2(IDX:0,9)"},
           "counts 'a' 4 used any 2");
    expect((struct line){.gres = "gpu:a:4", .used = "gpu:a:2(IDX:0)"},
           "counts 'a' 4 used any 3");
    expect((struct line){.gres = "gpu:a:4", .used = "shard:a:2(0/4,2/4,0/4)"},
           "counts 'a' 4 used any 2");
    expect((struct line){.gres = "gpu:a:4", .used = "gpu:a:1(IDX:2-1)"},
           "counts 'a' 4 used any 1");
    expect((struct line){.gres = "gpu:a:4", .used = "gpu:a:1(IDX:1,)"},
           "counts 'a' 4 used any 1");
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1", .used = "gpu:1"},
           "slots 'a' 2 used any 1");
    expect((struct line){.gres = "gpu:as0:1,gpu:as1:1", .used = "gpu:as7:1"},
           "slots 'a' 2 used any 1");
    expect((struct line){.gres = "(null)", .used = "gpu:3(IDX:0-5000)"},
           "counts '' 0 used any 0");
    expect((struct line){.gres = "gpu:a100:0(S:0-1)", .used = "gpu:a100:0"},
           "counts '' 0 used"); /* a type of none */
}

static void three_hundred_gpus_are_read(void **state)
{
    (void)state;
    struct firn_buf gres = {0}, used = {0};
    struct slurm_nodes nodes =
        one((struct line){.gres = "gpu:a:300", .used = "gpu:a:300(IDX:0-299)"});
    assert_int_equal(nodes.at.at[0].ngpus, 300);
    assert_int_equal(nodes.at.at[0].nused, 300);
    assert_true(nodes.at.at[0].has_indices);
    slurm_nodes_release(&nodes);
    for (int i = 0; i < 300; i++) {
        buf_printf(&gres, "%sgpu:as%d:1", i > 0 ? "," : "", i);
        buf_printf(&used, "%sgpu:as%d:%d", i > 0 ? "," : "", i, i % 2);
    }
    nodes = one((struct line){.gres = gres.at, .used = used.at});
    assert_int_equal(nodes.at.at[0].ngpus, 300);
    assert_int_equal(nodes.at.at[0].naming, SLURM_SLOTS);
    assert_int_equal(nodes.at.at[0].nused, 150);
    slurm_nodes_release(&nodes);
    buf_release(&gres);
    buf_release(&used);
}

static void unusable_gpus_are_left_out(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "gpu:a100:2,gpu:v100:2",
        "gpu:a100s0:1,gpu:v100s1:1",
        "gpu:a100s0:1,gpu:a100s2:1",
        "gpu:4,gpu:a100:2",
        "gpu:a100:2000",
        "gpu:a100:2K",
        "gpu:a100:no_consume:4",
        "gpu:a_name_that_is_too_long_for_any_table:4",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct slurm_nodes nodes =
            one((struct line){.gres = odd[i], .used = "gpu:1"});
        assert_int_equal(nodes.at.at[0].ngpus, 0);
        assert_false(nodes.at.at[0].is_usable);
        assert_true(strlen(nodes.at.at[0].why) > 10);
        slurm_nodes_release(&nodes);
    }
    expect((struct line){.gres = "gpu:as0:1,gpu:as0:1", .used = "gpu:0"},
           "counts 'as0' 2 used");
}

static void a_node_is_usable_when_its_state_is_harmless(void **state)
{
    (void)state;
    static const struct {
        const char *state;
        bool is_usable;
    } cases[] = {
        {"IDLE", true},
        {"MIXED", true},
        {"ALLOCATED", true},
        {"IDLE+PLANNED", true},
        {"PLANNED", true},
        {"IDLE-", true},
        {"MIXED+COMPLETING", true},
        {"COMPLETING", true},
        {"IDLE+CLOUD", true},
        {"IDLE*", false},
        {"IDLE+NOT_RESPONDING", false},
        {"DOWN", false},
        {"DOWN+NOT_RESPONDING", false},
        {"DOWN*+DRAIN", false},
        {"MIXED+DRAIN", false},
        {"MIXED+FAIL", false},
        {"MIXED+MAINTENANCE+RESERVED", false},
        {"MAINT", false},
        {"RESERVED", false},
        {"IDLE$", false},
        {"IDLE+POWERED_DOWN", false},
        {"IDLE+CLOUD+POWERED_DOWN", false},
        {"IDLE~", false},
        {"IDLE#", false},
        {"IDLE@", false},
        {"IDLE+REBOOT_REQUESTED", false},
        {"UNKNOWN", false},
        {"FUTURE", false},
        {"INVAL", false},
        {"IDLE+SOMETHING_NEW", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_nodes nodes = one((struct line){.gres = "gpu:a:4",
                                                     .used = "gpu:a:0(IDX:N/A)",
                                                     .state = cases[i].state});
        assert_int_equal(nodes.at.at[0].is_usable, cases[i].is_usable);
        assert_string_equal(nodes.at.at[0].state, cases[i].state);
        slurm_nodes_release(&nodes);
    }
}

static void free_text_of_a_node_is_only_its_reason(void **state)
{
    (void)state;
    struct slurm_nodes nodes = one((struct line){
        .gres = "gpu:a100:4",
        .used = "gpu:a100:0(IDX:N/A)",
        .state = "MIXED+DRAIN",
        .tail = " Reason=bad fan State=IDLE Gres=gpu:9 | "
                "[root@2026-01-02T03:04:05]        second\tline Comment=a b"});
    const struct slurm_node *node = &nodes.at.at[0];
    assert_string_equal(node->why, "bad fan State=IDLE Gres=gpu:9 | "
                                   "[root@2026-01-02T03:04:05]        "
                                   "second?line");
    assert_string_equal(node->state, "MIXED+DRAIN");
    assert_string_equal(node->name, "n1");
    assert_string_equal(node->host, "127.0.0.1");
    assert_string_equal(node->partitions, "main,inbox");
    assert_int_equal(node->ngpus, 4);
    slurm_nodes_release(&nodes);
    nodes = one((struct line){.gres = "gpu:a:1", .used = "gpu:a:0"});
    assert_string_equal(nodes.at.at[0].why, "");
    slurm_nodes_release(&nodes);
}

static void nodes_without_gpus_are_listed_in_order(void **state)
{
    (void)state;
    struct firn_buf text = {0};
    struct slurm_nodes nodes;
    struct firn_error err;
    struct line plain = {.gres = "gpu:a:4", .used = "gpu:a:0(IDX:N/A)"};
    put_line(&text, "n2", plain);
    buf_puts(&text, stranger);
    put_line(&text, "n1", plain);
    assert_int_equal(
        slurm_nodes_read(&nodes, (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    assert_int_equal(nodes.at.n, 3);
    assert_string_equal(nodes.at.at[0].name, "n2");
    assert_string_equal(nodes.at.at[1].name, "c1");
    assert_string_equal(nodes.at.at[2].name, "n1");
    assert_int_equal(nodes.at.at[1].ngpus, 0);
    assert_string_equal(nodes.at.at[1].type, "");
    assert_string_equal(nodes.at.at[1].why, "");
    assert_false(nodes.at.at[1].is_usable);
    slurm_nodes_release(&nodes);
    buf_release(&text);
}

static const char *node_error(const char *text)
{
    static struct firn_error err;
    struct slurm_nodes nodes;
    enum firn_status status = slurm_nodes_read(&nodes, bytes(text), &err);
    assert_true(status == FIRN_OK || status == FIRN_EINVAL);
    assert_true(status == FIRN_OK || nodes.at.n == 0);
    slurm_nodes_release(&nodes);
    return status == FIRN_OK ? "" : err.text;
}

static void a_line_without_a_node_is_an_error(void **state)
{
    (void)state;
    static const char *const odd[] = {"No nodes in the system\n", "\n",
                                      "NodeName=n9 Gres=(null) Extra=x y\n",
                                      "second line of a comment\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(strncmp(node_error(odd[i]),
                                 "scontrol: not a line of a node: '", 33),
                         0);
    assert_string_equal(node_error(stranger), "");
    assert_string_equal(node_error(""), "");
    char cut[sizeof stranger];
    memcpy(cut, stranger, sizeof cut);
    cut[sizeof cut - 2] = '\0';
    assert_non_null(strstr(node_error(cut), "has no end"));
}

static void an_invalid_list_or_state_is_reported_with_its_node(void **state)
{
    (void)state;
    static const struct {
        struct line line;
        const char *said;
    } cases[] = {
        {{.gres = "gpu:a100:4,", .used = "gpu:0"},
         "scontrol: node n1: not a list of GRES: 'gpu:a100:4,'"},
        {{.gres = "gpu:a100:4(S:0-1", .used = "gpu:0"}, "GRES: 'gpu"},
        {{.gres = "gpu:a100:4)", .used = "gpu:0"}, "GRES: 'gpu"},
        {{.gres = "gpu:a100:4(S:0)x", .used = "gpu:0"}, "GRES: 'gpu"},
        {{.gres = "gpu:a:b:4", .used = "gpu:0"}, "GRES: 'gpu"},
        {{.gres = "gpu:", .used = "gpu:0"}, "GRES: 'gpu"},
        {{.gres = ":4", .used = "gpu:0"}, "GRES: ':4"},
        {{.gres = "gpu:\033:4", .used = "gpu:0"}, "GRES: 'gpu:\\x1b:4'"},
        {{.gres = "gpu:4", .used = "gpu::4"}, "GRES in use: 'gpu::4'"},
        {{.gres = "gpu:4", .used = "gpu:0", .state = "idle"}, "state: 'idle'"},
        {{.gres = "gpu:4", .used = "gpu:0", .state = "IDLE+"}, "state: 'I"},
        {{.gres = "gpu:4", .used = "gpu:0", .state = "+DRAIN"}, "state: '+"},
        {{.gres = "gpu:4", .used = "gpu:0", .state = "IDLE?"}, "state: 'I"},
        {{.gres = "gpu:4", .used = "gpu:0", .state = ""}, "state: ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_buf text = {0};
        put_line(&text, "n1", cases[i].line);
        assert_non_null(strstr(node_error(text.at), cases[i].said));
        buf_release(&text);
    }
}

/* A text with some bytes changed is read, or refused with a sentence. */
static void a_damaged_node_line_causes_no_crash(void **state)
{
    (void)state;
    static const char marks[] = "|:,()+_- \n\t=\001aZ0";
    struct rng rng;
    rng_seed(&rng, 20261115);
    for (int trial = 0; trial < trials(1000); trial++) {
        struct firn_buf text = {0};
        put_line(&text, "n1",
                 (struct line){"gpu:as0:1,gpu:as1:1,shard:as0:4",
                               "gpu:as0:1(IDX:0),shard:as0:1(IDX:0-1)",
                               "MIXED+DRAIN", " Reason=x"});
        for (int i = 0; i < 3; i++)
            text.at[rng_below(&rng, text.n)] =
                marks[rng_below(&rng, sizeof marks - 1)];
        for (const char *said = node_error(text.at); *said != 0; said++)
            assert_true(*said >= ' ' && *said <= '~');
        buf_release(&text);
    }
}

/* As Slurm prints them where cores are bound to GPUs that have no type. */
static void gpus_without_a_type_are_named_by_index(void **state)
{
    (void)state;
    expect(
        (struct line){.gres = "gpu:4(S:0-1)", .used = "gpu:(null):0(IDX:N/A)"},
        "counts 'gpu' 4 used");
    expect((struct line){.gres = "gpu:4(S:0-1)",
                         .used = "gpu:(null):2(IDX:0,3),nvme:(null):0"},
           "counts 'gpu' 4 used 0 3");
    static const char *const odd[] = {"gpu:(null)", "gpu:a:(null):1",
                                      "(null):1", "gpu:(null:1",
                                      "gpu:(null)x:1"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct firn_buf text = {0};
        put_line(&text, "n1", (struct line){.gres = "gpu:4", .used = odd[i]});
        assert_non_null(strstr(node_error(text.at), "GRES in use"));
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_by_counts_have_their_indices),
        cmocka_unit_test(gpus_without_a_type_are_only_counted),
        cmocka_unit_test(gpus_by_slots_have_their_indices_in_their_types),
        cmocka_unit_test(
            shares_that_are_not_the_same_for_all_gpus_do_not_count),
        cmocka_unit_test(used_gpus_without_an_index_are_counted),
        cmocka_unit_test(three_hundred_gpus_are_read),
        cmocka_unit_test(unusable_gpus_are_left_out),
        cmocka_unit_test(a_node_is_usable_when_its_state_is_harmless),
        cmocka_unit_test(free_text_of_a_node_is_only_its_reason),
        cmocka_unit_test(nodes_without_gpus_are_listed_in_order),
        cmocka_unit_test(a_line_without_a_node_is_an_error),
        cmocka_unit_test(an_invalid_list_or_state_is_reported_with_its_node),
        cmocka_unit_test(a_damaged_node_line_causes_no_crash),
        cmocka_unit_test(gpus_without_a_type_are_named_by_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
