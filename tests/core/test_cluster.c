/* test_cluster.c - specs, presets, YAML files, and the sentence for each way
 * to get one wrong.
 *
 * A cluster is compared as text: its name, nodes, GPUs, then each type with
 * memory, speed and count.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/temp.h"
#include "lib/trials.h"
#include <firn/cluster.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void describe(const struct firn_cluster *c, struct firn_buf *out)
{
    buf_printf(out, "%s: %d nodes, %d GPUs;", c->name, c->nnodes, c->ngpus);
    for (int i = 0; i < c->ntypes; i++)
        buf_printf(out, " %s %g GiB x%g n%d;", c->types[i].name,
                   c->types[i].mem_gib, c->types[i].speed, c->types[i].ngpus);
}

/* The invariants of the header, and no node out of place. */
static void check_sound(const struct firn_cluster *c)
{
    int total = 0, per_type[FIRN_TYPES_MAX] = {0};
    assert_in_range(c->nnodes, 1, FIRN_NODES_MAX);
    assert_in_range(c->ntypes, 1, FIRN_TYPES_MAX);
    assert_in_range(c->jobs_per_gpu, 1, 8);
    for (int i = 0; i < c->nnodes; i++) {
        const struct firn_node *node = &c->nodes[i];
        assert_int_equal(node->id, i);
        assert_true(node->is_up);
        assert_in_range(node->ngpus, 1, FIRN_NODE_GPUS_MAX);
        assert_in_range(node->type, 0, c->ntypes - 1);
        per_type[node->type] += node->ngpus;
        total += node->ngpus;
    }
    assert_int_equal(total, c->ngpus);
    for (int i = 0; i < c->ntypes; i++) {
        assert_int_equal(per_type[i], c->types[i].ngpus);
        assert_true(c->types[i].speed > 0.0 && c->types[i].mem_gib >= 0.0);
    }
}

static void gives(const char *text, const char *want)
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    struct firn_buf got = {0};
    if (firn_cluster_open(&cluster, text, &err) != FIRN_OK)
        fail_msg("%s: %s", text, err.text);
    check_sound(&cluster);
    describe(&cluster, &got);
    assert_string_equal(got.at, want);
    buf_release(&got);
    firn_cluster_release(&cluster);
}

/* Refused with exactly this sentence, the output untouched. */
static void refuses(const char *text, const char *sentence)
{
    struct firn_cluster cluster = {.ngpus = 77};
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_parse_spec(&cluster, text, &err),
                     FIRN_EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(cluster.ngpus, 77);
    assert_int_equal(firn_cluster_parse_spec(&cluster, text, NULL),
                     FIRN_EINVAL);
}

static void yaml_refuses(const char *text, const char *sentence)
{
    struct firn_cluster cluster = {.ngpus = 77};
    struct firn_error err = {0};
    struct firn_bytes bytes = {text, strlen(text)};
    assert_int_equal(firn_cluster_parse_yaml(&cluster, bytes, "c.yaml", &err),
                     FIRN_EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(cluster.ngpus, 77);
    assert_int_equal(firn_cluster_parse_yaml(&cluster, bytes, "c.yaml", NULL),
                     FIRN_EINVAL);
}

static void a_spec_names_nodes_gpus_types_and_memory(void **state)
{
    (void)state;
    gives("24x8:v100,2x4:a100@80",
          "24x8:v100,2x4:a100@80: 26 nodes, 200 GPUs; "
          "v100 32 GiB x1 n192; a100 80 GiB x1.54 n8;");
    gives("1x192:v100", "1x192:v100: 1 nodes, 192 GPUs; v100 32 GiB x1 n192;");
    gives("1x1:made-up", "1x1:made-up: 1 nodes, 1 GPUs; made-up 0 GiB x1 n1;");
    gives("1x1:made-up@12.5",
          "1x1:made-up@12.5: 1 nodes, 1 GPUs; made-up 12.5 GiB x1 n1;");
    gives("2x4:V100 , 1x2:v100",
          "2x4:V100 , 1x2:v100: 3 nodes, 10 GPUs; v100 32 GiB x1 n10;");
    gives("1x4:a100@40,1x4:a100",
          "1x4:a100@40,1x4:a100: 2 nodes, 8 GPUs; a100 40 GiB x1 n8;");
}

static void nodes_are_numbered_in_the_order_named(void **state)
{
    (void)state;
    struct firn_cluster c;
    assert_int_equal(firn_cluster_open(&c, "2x8:v100,1x4:t4,1x2:v100", NULL),
                     FIRN_OK);
    const int gpus[] = {8, 8, 4, 2}, type[] = {0, 0, 1, 0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.nodes[i].ngpus, gpus[i]);
        assert_int_equal(c.nodes[i].type, type[i]);
    }
    assert_int_equal(c.jobs_per_gpu, 2);
    assert_int_equal(firn_cluster_type(&c, "T4"), 1);
    assert_int_equal(firn_cluster_type(&c, "h100"), -1);
    firn_cluster_release(&c);
    firn_cluster_release(&c);
    firn_cluster_release(NULL);
}

static void the_commonest_type_has_speed_one(void **state)
{
    (void)state;
    gives("1x4:t4,1x8:a100", "1x4:t4,1x8:a100: 2 nodes, 12 GPUs; "
                             "t4 16 GiB x0.324675 n4; a100 40 GiB x1 n8;");
    gives("1x8:t4,1x8:a100", /* a tie: the first named */
          "1x8:t4,1x8:a100: 2 nodes, 16 GPUs; "
          "t4 16 GiB x1 n8; a100 40 GiB x3.08 n8;");
    gives("1x8:t4,1x8:a100,1x1:a100",
          "1x8:t4,1x8:a100,1x1:a100: 3 nodes, 17 GPUs; "
          "t4 16 GiB x0.324675 n8; a100 40 GiB x1 n9;");
}

static void presets_have_the_nodes_of_their_papers(void **state)
{
    (void)state;
    gives("pollux", "pollux: 16 nodes, 64 GPUs; t4 16 GiB x1 n64;");
    gives("sia", "sia: 6 nodes, 44 GPUs; 2080ti 11 GiB x1 n24; "
                 "a100 40 GiB x2.40625 n16; rtx6000 24 GiB x1.32812 n4;");
    gives("bsbf", "bsbf: 16 nodes, 64 GPUs; 2080ti 11 GiB x1 n64;");
    gives("icefrog", "icefrog: 12 nodes, 48 GPUs; a800 80 GiB x1 n48;");
    gives("easyscale", "easyscale: 16 nodes, 64 GPUs; v100 32 GiB x1 n32; "
                       "p100 16 GiB x0.68 n16; t4 16 GiB x0.5 n16;");
    gives("ymir", "ymir: 8 nodes, 32 GPUs; v100 32 GiB x1 n32;");
    gives("big", "big: 1250 nodes, 10000 GPUs; v100 32 GiB x1 n10000;");
    size_t n = 0;
    const struct firn_preset *presets = firn_cluster_presets(&n);
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++)
        assert_true(strlen(presets[i].summary) > 0);
}

static void a_wrong_spec_gets_the_character(void **state)
{
    (void)state;
    refuses("", "cluster spec '', character 1: "
                "expected a number of nodes, found the end");
    refuses("0x4:v100", "cluster spec '0x4:v100', character 1: "
                        "the number of nodes is 1 or more, not 0");
    refuses("-1x4:v100", "cluster spec '-1x4:v100', character 1: "
                         "expected a number of nodes, found '-'");
    refuses("4x0:v100", "cluster spec '4x0:v100', character 1: "
                        "a node has 1 to 1024 GPUs, not 0");
    refuses("4x-8:v100", "cluster spec '4x-8:v100', character 3: "
                         "expected a number of GPUs, found '-'");
    refuses("1x1025:v100", "cluster spec '1x1025:v100', character 1: "
                           "a node has 1 to 1024 GPUs, not 1025");
    refuses("99999999999999999999x4:v100",
            "cluster spec '99999999999999999999x4:v100', character 1: "
            "a cluster has at most 1048576 nodes in all");
    refuses("1048576x1:t4,1x1:t4",
            "cluster spec '1048576x1:t4,1x1:t4', character 14: "
            "a cluster has at most 1048576 nodes in all");
    refuses("4x4", "cluster spec '4x4', character 4: "
                   "expected ':', found the end");
    refuses("4y4:v100", "cluster spec '4y4:v100', character 2: "
                        "expected 'x', found 'y'");
    refuses("4x4:v100,", "cluster spec '4x4:v100,', character 10: "
                         "expected a number of nodes, found the end");
    refuses("4x4:v100 junk", "cluster spec '4x4:v100 junk', character 10: "
                             "expected ',' or the end, found 'j'");
    refuses("4x4\x01", "cluster spec '4x4?', character 4: "
                       "expected ':', found byte 0x01");
}

static void a_wrong_type_or_memory_gets_the_character(void **state)
{
    (void)state;
    const char *type = "expected a GPU type of 1 to 31 letters, digits and "
                       ". _ - +";
    const char *gib = "expected GiB of memory after '@', a number above 0";
    char want[300];
    snprintf(want, sizeof want, "cluster spec '4x4:', character 5: %s", type);
    refuses("4x4:", want);
    snprintf(want, sizeof want, "cluster spec '4x4:v;0', character 5: %s",
             type);
    refuses("4x4:v;0", want);
    snprintf(want, sizeof want,
             "cluster spec '1x1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', "
             "character 5: %s",
             type);
    refuses("1x1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", want);
    const char *bad[] = {"", "0", "-3", "80GB", "nan", "1e3", "9999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "4x4:v100@%s", bad[i]);
        snprintf(want, sizeof want, "cluster spec '%s', character 10: %s", spec,
                 gib);
        refuses(spec, want);
    }
    refuses("4x4:a100,2x4:A100@80",
            "cluster spec '4x4:a100,2x4:A100@80', character 10: type 'a100' "
            "has 80 GiB here and 40 GiB before; give the two kinds different "
            "names");
}

static void more_than_32_types_are_refused(void **state)
{
    (void)state;
    struct firn_buf spec = {0};
    for (int i = 0; i < FIRN_TYPES_MAX; i++)
        buf_printf(&spec, "%s1x1:t-%d", i ? "," : "", i);
    struct firn_cluster c;
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_parse_spec(&c, spec.at, &err), FIRN_OK);
    check_sound(&c);
    firn_cluster_release(&c);
    buf_puts(&spec, ",1x1:one-more");
    assert_int_equal(firn_cluster_parse_spec(&c, spec.at, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "'one-more' is one GPU type too many"));
    buf_release(&spec);
}

static void text_that_is_no_cluster_gets_the_nearest_preset(void **state)
{
    (void)state;
    struct firn_cluster c = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_open(&c, "polux", &err), FIRN_EINVAL);
    assert_string_equal(
        err.text,
        "cluster 'polux' is no preset (did you mean 'pollux'?), no spec such "
        "as 24x8:v100 and no file that can be read (No such file or "
        "directory)");
    assert_int_equal(firn_cluster_open(&c, "/tmp", &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "(Is a directory)"));
    assert_int_equal(firn_cluster_open(&c, "", &err), FIRN_EINVAL);
}

static void the_example_file_is_read(void **state)
{
    (void)state;
    struct firn_cluster c;
    struct firn_error err = {0};
    gives("clusters/example.yaml",
          "example: 7 nodes, 42 GPUs; v100 32 GiB x1 n32; "
          "a100 80 GiB x1.54 n8; tpu-ish 48 GiB x1.25 n2;");
    assert_int_equal(firn_cluster_open(&c, "clusters/example.yaml", &err),
                     FIRN_OK);
    assert_int_equal(c.nodes[3].rack, 0);
    assert_int_equal(c.nodes[4].rack, 1);
    assert_int_equal(c.nodes[6].rack, 1);
    assert_int_equal(c.nodes[6].ngpus, 2);
    firn_cluster_release(&c);
}

static void a_short_file_has_the_defaults(void **state)
{
    (void)state;
    const char *text = "{name: tiny, nodes: [{gpus: 4, type: T4}]}";
    struct firn_cluster c;
    struct firn_error err = {0};
    struct firn_bytes bytes = {text, strlen(text)};
    assert_int_equal(firn_cluster_parse_yaml(&c, bytes, "x", &err), FIRN_OK);
    check_sound(&c);
    assert_int_equal(c.nnodes, 1);
    assert_int_equal(c.jobs_per_gpu, 2);
    assert_int_equal(c.nodes[0].rack, 0);
    assert_string_equal(c.types[0].name, "t4");
    assert_true(c.types[0].mem_gib == 16.0);
    firn_cluster_release(&c);
}

static void a_wrong_shape_gets_file_and_line(void **state)
{
    (void)state;
    yaml_refuses("", "c.yaml: the file is empty");
    yaml_refuses("- 1\n", "c.yaml: line 1: a list, where 'name: ...' and "
                          "'nodes: ...' should be");
    yaml_refuses("just words\n",
                 "c.yaml: line 1: Expecting MAPPING, got event: SCALAR");
    yaml_refuses("name: x\nnodes: [\n",
                 "c.yaml: line 3: did not find expected node content");
    yaml_refuses("name: x\n", "c.yaml: line 1: Missing required mapping "
                              "field: nodes (in mapping field 'name')");
    yaml_refuses("name: x\nnodes:\n- gpus: 1\n  typ: v100\n",
                 "c.yaml: line 4: Unexpected key: typ");
    yaml_refuses("name: x\n\nname: y\nnodes: []\n",
                 "c.yaml: line 3: Mapping field already seen: name");
    yaml_refuses("name: x\nnodes: 3\n",
                 "c.yaml: line 2: Expecting SEQUENCE, got event: SCALAR "
                 "(in mapping field 'nodes')");
    yaml_refuses("name: x\nnodes:\n- gpus: [1]\n  type: t4\n",
                 "c.yaml: line 3: Expecting STRING, got event: "
                 "SEQUENCE_START (in mapping field 'gpus')");
    yaml_refuses("name: x\nnodes: [[[[[[\n",
                 "c.yaml: line 2: nested too deeply");
    yaml_refuses("name: &a x\nnodes: *a\n",
                 "c.yaml: line 2: aliases are not used in cluster files");
    yaml_refuses("name: x\nnodes: []\n---\nname: y\n",
                 "c.yaml: line 3: a second document");
    yaml_refuses("? [a]\n: b\n", "c.yaml: line 1: a key must be a word");
    yaml_refuses("name: \"a\\tb\"\nnodes: []\n",
                 "c.yaml: the name has a control character");
}

static void a_wrong_value_gets_file_and_line(void **state)
{
    (void)state;
    yaml_refuses("name: x\nnodes: []\n", "c.yaml: the cluster has no GPU");
    yaml_refuses("name: x\nnodes:\n- gpus: 4\n  type: t4\n\n- gpus: -1\n"
                 "  type: t4\n",
                 "c.yaml: line 6: 'gpus' is '-1', not a whole number from 1 "
                 "to 1024");
    yaml_refuses("name: x\nnodes:\n- {gpus: 4, type: t4, count: 0}\n",
                 "c.yaml: line 3: 'count' is '0', not a whole number from 1 "
                 "to 1048576");
    yaml_refuses("name: x\nnodes:\n- {gpus: 4, type: t4, rack: x}\n",
                 "c.yaml: line 3: 'rack' is 'x', not a whole number from 0 "
                 "to 1000000");
    yaml_refuses("name: x\nnodes:\n- {gpus: 4, type: 'a b'}\n",
                 "c.yaml: line 3: a GPU type is 1 to 31 letters, digits and "
                 ". _ - +");
    yaml_refuses("name: x\njobs_per_gpu: 9\nnodes: []\n",
                 "c.yaml: line 2: 'jobs_per_gpu' is '9', not a whole number "
                 "from 1 to 8");
    yaml_refuses("name: x\ntypes:\n- name: a\n- name: A\nnodes: []\n",
                 "c.yaml: line 4: type 'A' is listed twice");
    yaml_refuses("name: x\ntypes: [{name: a, speed: 0}]\nnodes: []\n",
                 "c.yaml: line 2: 'speed' is '0', not a number from 0.001 to "
                 "1000");
    yaml_refuses("name: x\ntypes: [{name: a, memory_gib: nan}]\nnodes: []\n",
                 "c.yaml: line 2: 'memory_gib' is 'nan', not a number from 0 "
                 "to 1e+06");
    yaml_refuses("name: x\nnodes:\n- {gpus: 1, type: a, count: 1048576}\n"
                 "- {gpus: 1, type: a}\n",
                 "c.yaml: line 4: a cluster has at most 1048576 nodes in all");
}

static void a_file_over_4_mib_is_refused(void **state)
{
    (void)state;
    char path[TEMP_FOLDER];
    temp_file(path, (struct firn_bytes){0});
    assert_int_equal(truncate(path, (4 << 20) + 1), 0);
    struct firn_cluster c = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_open(&c, path, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "over 4 MiB"));
    unlink(path);
}

/* Any damage to a good text is read or refused, never worse. */
static void damaged_texts_never_crash(void **state)
{
    (void)state;
    static const char spec[] = "24x8:v100,2x4:a100@80";
    static const char yaml[] = "name: x\njobs_per_gpu: 2\ntypes:\n- name: a\n"
                               "  speed: 2\nnodes:\n- gpus: 4\n  type: a\n"
                               "- {count: 2, gpus: 8, type: t4, rack: 1}\n";
    struct rng rng;
    rng_seed(&rng, 21);
    for (int i = 0, all = trials(20000); i < all; i++) {
        char text[sizeof yaml];
        bool is_spec = i % 2 == 0;
        size_t n = is_spec ? sizeof spec : sizeof yaml;
        memcpy(text, is_spec ? spec : yaml, n);
        for (uint64_t k = 0; k <= rng_below(&rng, 4); k++)
            text[rng_below(&rng, n - 1)] =
                (char)(rng_below(&rng, 8) ? 32 + rng_below(&rng, 95)
                                          : rng_u64(&rng));
        struct firn_cluster c = {0};
        struct firn_error err = {0};
        enum firn_status status =
            is_spec ? firn_cluster_parse_spec(&c, text, &err)
                    : firn_cluster_parse_yaml(
                          &c, (struct firn_bytes){text, n - 1}, "x", &err);
        if (status == FIRN_OK)
            assert_in_range(c.ngpus, 1, 1 << 30);
        else
            assert_true(strlen(err.text) > 0);
        firn_cluster_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_names_nodes_gpus_types_and_memory),
        cmocka_unit_test(nodes_are_numbered_in_the_order_named),
        cmocka_unit_test(the_commonest_type_has_speed_one),
        cmocka_unit_test(presets_have_the_nodes_of_their_papers),
        cmocka_unit_test(a_wrong_spec_gets_the_character),
        cmocka_unit_test(a_wrong_type_or_memory_gets_the_character),
        cmocka_unit_test(more_than_32_types_are_refused),
        cmocka_unit_test(text_that_is_no_cluster_gets_the_nearest_preset),
        cmocka_unit_test(the_example_file_is_read),
        cmocka_unit_test(a_short_file_has_the_defaults),
        cmocka_unit_test(a_wrong_shape_gets_file_and_line),
        cmocka_unit_test(a_wrong_value_gets_file_and_line),
        cmocka_unit_test(a_file_over_4_mib_is_refused),
        cmocka_unit_test(damaged_texts_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
