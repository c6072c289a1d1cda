/* test_jobfile.c - what a job file says, and what is wrong with it.
 */
#include "base/buf.h"
#include "daemon/jobfile.h"
#include "lib/trace_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct firn_error err;

static struct live_ask read_good(const char *text)
{
    struct live_ask ask = {0};
    struct firn_bytes bytes = {text, strlen(text)};
    if (jobfile_read(&ask, bytes, "job.yaml", &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return ask;
}

/* The whole sentence; the ask is as it was. */
static void check_bad(const char *text, const char *want)
{
    struct live_ask ask = {.priority = 77};
    struct firn_bytes bytes = {text, strlen(text)};
    err.text[0] = '\0';
    assert_int_equal(jobfile_read(&ask, bytes, "j", &err), FIRN_EINVAL);
    assert_string_equal(err.text, want);
    assert_int_equal(ask.priority, 77);
    assert_null(ask.name);
}

static void check_list(char *const *list, const char *want)
{
    struct firn_buf text = {0};
    buf_puts(&text, "");
    for (size_t i = 0; list[i] != NULL; i++)
        buf_printf(&text, "[%s]", list[i]);
    assert_string_equal(text.at, want);
    buf_release(&text);
}

static void commands_that_start_processes_themselves_are_started_once(void **u)
{
    (void)u;
    static const struct {
        const char *text, *launch;
    } cases[] = {
        {"run: torchrun --standalone train.py\n", "one"},
        {"run: /opt/venv/bin/torchrun train.py\n", "one"},
        {"run: accelerate launch train.py\n", "one"},
        {"run: deepspeed train.py\n", "one"},
        {"run: python3.11 -m torch.distributed.run train.py\n", "one"},
        {"run: python -u -m torch.distributed.launch train.py\n", "one"},
        {"run: uv run torchrun train.py\n", "one"},
        {"run: torchrun train.py\nlaunch: each\n", "each"},
        {"run: accelerate config\n", ""},
        {"run: python -m train torch.distributed.run\n", ""},
        {"run: python train.py\n", ""},
        {"run: torchrunner train.py\n", ""},
        {"run: uv run\n", ""},
        {"run: torchrun\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_ask ask = read_good(cases[i].text);
        assert_string_equal(ask.launch, cases[i].launch);
        live_ask_release(&ask);
    }
}

static void a_job_file_needs_only_a_command(void **state)
{
    (void)state;
    struct live_ask ask = read_good("run: python train.py\n");
    check_list(ask.argv, "[python][train.py]");
    check_list(ask.env, "");
    assert_string_equal(ask.name, "");
    assert_string_equal(ask.queue, "default");
    assert_string_equal(ask.types, "");
    assert_string_equal(ask.freeze, "");
    assert_string_equal(ask.consistency, "");
    assert_int_equal(ask.priority, 0);
    assert_int_equal(ask.gpus_min, 1);
    assert_int_equal(ask.gpus_max, 1);
    assert_false(ask.is_elastic || ask.can_checkpoint || ask.may_share ||
                 ask.may_merge || ask.may_restart || ask.retry_on_failure);
    assert_true(ask.grace_s == 60);
    live_ask_release(&ask);
}

static const char everything[] =
    "name: resnet-50.a_b\n"
    "queue: research\n"
    "priority: 70\n"
    "run: [python, train.py, --lr, \"0.1\", \"\"]\n"
    "workdir: /home/ann/work\n"
    "env:\n"
    "  OMP_NUM_THREADS: 4\n"
    "  GREETING: \"hello; $USER 'x'\"\n"
    "  EMPTY: \"\"\n"
    "gpus: 1..8\n"
    "gpu: [a100, V100]\n"
    "share: allowed\n"
    "app: resnet50\n"
    "batch: 256\n"
    "memory: 512MiB\n"
    "duration: 1h30m\n"
    "deadline: 2026-11-20T18:00:30+01:00\n"
    "restart: allowed\n"
    "freeze: {max: 90%, rule: freezeout}\n"
    "elastic: {consistency: D2, threads: 8, scan: passed, "
    "guarantee: none}\n"
    "finetune:\n"
    "  base: gpt2\n"
    "  dataset: squad v2\n"
    "  objective: qa\n"
    "  sharing: allowed\n"
    "checkpoint: {dir: /ckpt, grace: 90s, "
    "interval: 10m}\n"
    "retry: {on: [lost], max: 3}\n"
    "target: {epochs: 90, iterations: 5000, "
    "metric: 0.76}\n";

static void every_key_is_read(void **state)
{
    (void)state;
    struct live_ask ask = read_good(everything);
    assert_string_equal(ask.name, "resnet-50.a_b");
    assert_string_equal(ask.queue, "research");
    assert_int_equal(ask.priority, 70);
    check_list(ask.argv, "[python][train.py][--lr][0.1][]");
    assert_string_equal(ask.workdir, "/home/ann/work");
    check_list(ask.env,
               "[OMP_NUM_THREADS=4][GREETING=hello; $USER 'x'][EMPTY=]");
    assert_int_equal(ask.gpus_min, 1);
    assert_int_equal(ask.gpus_max, 8);
    assert_string_equal(ask.types, "a100|V100");
    assert_string_equal(ask.app, "resnet50");
    assert_int_equal(ask.batch, 256);
    assert_true(ask.mem_gib == 0.5);
    assert_true(ask.duration_s == 5400);
    assert_true(ask.deadline_s == 1795194030); /* by date(1) */
    assert_string_equal(ask.freeze, "freezeout");
    assert_true(ask.freeze_max == 0.9);
    assert_string_equal(ask.consistency, "D2");
    assert_int_equal(ask.threads, 8);
    assert_string_equal(ask.base, "gpt2");
    assert_string_equal(ask.dataset, "squad v2");
    assert_string_equal(ask.objective, "qa");
    assert_string_equal(ask.ckpt_dir, "/ckpt");
    assert_true(ask.grace_s == 90 && ask.ckpt_every_s == 600);
    assert_true(ask.may_share && ask.may_merge && ask.may_restart &&
                ask.is_elastic && ask.can_checkpoint && ask.retry_on_lost);
    assert_false(ask.retry_on_failure);
    assert_int_equal(ask.retries_max, 3);
    assert_int_equal(ask.target_epochs, 90);
    assert_int_equal(ask.target_iterations, 5000);
    assert_true(ask.target_metric == 0.76);
    live_ask_release(&ask);
}

static void json_is_read_like_yaml(void **state)
{
    (void)state;
    struct live_ask ask = read_good(
        "{\"name\": \"a\", \"run\": [\"sh\", \"-c\", \"echo \\\"\\u00e9\\\" "
        "\\\\ \\/\"],\n \"gpus\": 4, \"env\": {\"A\": \"x: y #\"}}");
    check_list(ask.argv, "[sh][-c][echo \"\xc3\xa9\" \\ /]");
    check_list(ask.env, "[A=x: y #]");
    assert_int_equal(ask.gpus_min, 4);
    live_ask_release(&ask);
}

static void mappings_have_defaults_of_their_own(void **state)
{
    (void)state;
    struct live_ask ask = read_good("run: x\ngpus: 4\nfreeze: {max: 0.5}\n"
                                    "elastic: {threads: 4}\nretry: {max: 2}\n");
    assert_string_equal(ask.freeze, "penalty");
    assert_string_equal(ask.consistency, "D1");
    assert_true(ask.is_elastic && ask.can_checkpoint);
    assert_true(ask.retry_on_failure && ask.retry_on_lost);
    live_ask_release(&ask);
    ask = read_good("run: x\nretry: {on: failure}\ncheckpoint: {grace: 5}\n");
    assert_true(ask.retry_on_failure && !ask.retry_on_lost);
    assert_int_equal(ask.retries_max, 1);
    assert_true(ask.can_checkpoint && !ask.is_elastic && ask.grace_s == 5);
    live_ask_release(&ask);
    ask = read_good("run: x\ngpus: 2..4\n"); /* starts on any, stays there */
    assert_true(ask.is_elastic && !ask.can_checkpoint);
    live_ask_release(&ask);
}

static void a_command_text_is_split_at_blanks_outside_quotes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"run: a  b c", "[a][b][c]"},
        {"run: a 'b  c' \"d 'e'\"", "[a][b  c][d 'e']"},
        {"run: a --x='1 2'3", "[a][--x=1 23]"},
        {"run: a '' b", "[a][][b]"},
        {"run: a '$HOME' '*'", "[a][$HOME][*]"},
        {"run: 'a b\\n'", "[a][b\\n]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_ask ask = read_good(cases[i][0]);
        check_list(ask.argv, cases[i][1]);
        live_ask_release(&ask);
    }
    static const char shell[] =
        "j: line 1: 'run' is '%s', not a command without | & ; < > $ ` * "
        "outside of quotes (no shell reads it; with one: [sh, -c, '...'])";
    static const char *const wrong[] = {"a | b", "a > b", "a; b",  "a && b",
                                        "$HOME", "a `b`", "ls *.c"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64], want[300];
        snprintf(text, sizeof text, "run: %s", wrong[i]);
        snprintf(want, sizeof want, shell, wrong[i]);
        check_bad(text, want);
    }
    check_bad("run: a 'b", "j: line 1: 'run' is 'a 'b', not a command whose "
                           "quotes are closed");
    check_bad("run: \"''\"",
              "j: line 1: 'run' is '''', not a command of 1 to 1024 words");
}

static void a_language_model_is_known_by_name_or_numbers(void **state)
{
    (void)state;
    struct live_ask ask = read_good(
        "run: x\nbatch: 8\nmodel: {kind: llm, hidden: 1024, layers: 24, "
        "heads: 16, vocab: 50257, seq: 512}\n");
    assert_string_equal(ask.model,
                        "{\"kind\":\"llm\",\"hidden\":1024,\"layers\":24,"
                        "\"heads\":16,\"vocab\":50257,\"seq\":512}");
    assert_int_equal(ask.gpus_min, 0);
    assert_int_equal(ask.gpus_max, 0);
    assert_int_equal(ask.seq, 512);
    assert_string_equal(ask.app, "llm-1024x24x16x50257");
    live_ask_release(&ask);
    ask = read_good("run: x\nbatch: 8\nmodel: {name: gpt2-medium, layers: 2, "
                    "seq: 128}\n");
    assert_string_equal(ask.app, "llm-1024x2x16x50257");
    live_ask_release(&ask);
    ask = read_good("run: x\nbatch: 8\nmodel: {name: gpt2-medium, seq: 128}\n");
    assert_non_null(strstr(ask.model, "\"name\":\"gpt2-medium\",\"hidden\":"
                                      "1024,\"layers\":24"));
    assert_string_equal(ask.app, "gpt2-medium");
    live_ask_release(&ask);
    ask = read_good("run: x\ngpus: 2\nmodel: {name: mine, seq: 1, hidden: 64, "
                    "layers: 2, heads: 2, vocab: 9}\n");
    assert_int_equal(ask.gpus_max, 2);
    live_ask_release(&ask);
    check_bad("run: x\nbatch: 8\n\nmodel: {hidden: 65, layers: 2, heads: 2, "
              "vocab: 9, seq: 9}\n",
              "j: line 4: hidden (65) is no multiple of heads (2)");
    check_bad("run: x\nbatch: 8\napp: resnet\nmodel: {name: gpt2, seq: 9}\n",
              "j: line 4: a model without 'gpus' has no other 'app': remove "
              "'app'");
    check_bad("run: x\nmodel: {name: gpt2, seq: 9}\n",
              "j: line 2: a model without 'gpus' needs 'batch'");
    check_bad("run: x\nbatch: 1\nmodel: {name: gpt2}\n",
              "j: line 3: a model needs 'seq'");
    check_bad("run: x\nmodel: {kind: cnn}\n",
              "j: line 2: 'kind' is 'cnn', not one of llm");
}

#define LLAMA                                                   \
    "{\"model_type\": \"llama\", \"hidden_size\": 2048, "       \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 16, "   \
    "\"num_key_value_heads\": 4, \"intermediate_size\": 5632, " \
    "\"vocab_size\": 32000}"

static void a_config_is_the_model_with_the_defaults_of_firn_memory(void **state)
{
    (void)state;
    struct live_ask ask = read_good("run: t\nmodel: {config: '" LLAMA
                                    "', seq: 2048, batch: 8}\n");
    struct firn_job_spec spec;
    assert_int_equal(ask.batch, 8);
    assert_int_equal(strncmp(ask.app, "llama-", 6), 0);
    assert_string_equal(ask.config, LLAMA);
    assert_string_equal(ask.precision, "amp");
    assert_string_equal(ask.optimizer, "adamw");
    assert_string_equal(ask.attention, "sdpa");
    assert_non_null(strstr(ask.model, "\"family\":\"llama\""));
    assert_null(strstr(ask.model, "taken_for"));
    assert_non_null(strstr(ask.model, "\"hidden\":2048,\"layers\":4"));
    jobfile_spec(&ask, 0, &spec);
    assert_string_equal(spec.config, LLAMA);
    assert_int_equal(spec.gpus, 0);
    live_ask_release(&ask);
    /* Over lines, as a block; with a name of its own. */
    ask = read_good("run: t\nbatch: 8\nmodel:\n  seq: 2048\n  name: mine\n"
                    "  config: |\n    {\"model_type\": \"llama\",\n"
                    "     \"hidden_size\": 2048,\n"
                    "     \"num_hidden_layers\": 4,\n"
                    "     \"num_attention_heads\": 16,\n"
                    "     \"intermediate_size\": 5632,\n"
                    "     \"vocab_size\": 32000}\n");
    assert_string_equal(ask.app, "mine");
    live_ask_release(&ask);
}

static void the_words_of_firn_memory_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "run: t\nbatch: 8\nmodel: {name: llama-3.1-8b, seq: 2048, mode: qlora, "
        "lora: 32, lora-on: [q, v], lora-precision: bf16, loss: fused, "
        "zero: fsdp, accumulation: 2, offload: optimizer}\n",
        "run: t\nbatch: 8\nmodel: {name: llama-3.1-8b, seq: 2048, "
        "lora: {rank: 32, on: [q, v], kind: qlora, precision: bf16}, "
        "loss: fused, zero: fsdp, accumulation: 2, offload: [optimizer]}\n"};
    for (size_t i = 0; i < 2; i++) {
        struct live_ask ask = read_good(texts[i]);
        struct firn_job_spec spec;
        jobfile_spec(&ask, 0, &spec);
        const struct firn_training *train = &spec.training;
        assert_string_equal(ask.precision, "bf16");
        assert_int_equal(train->mode, 4);
        assert_int_equal(train->lora, 32);
        assert_int_equal(train->lora_on, FIRN_LLM_Q | FIRN_LLM_V);
        assert_int_equal(train->lora_precision, 2);
        assert_int_equal(train->loss, 3);
        assert_int_equal(train->zero, 5);
        assert_int_equal(train->accumulation, 2);
        assert_int_equal(train->offload, 1);
        live_ask_release(&ask);
    }
    /* A job with none of the new words keeps Frenzy's defaults. */
    struct live_ask ask =
        read_good("run: t\nbatch: 8\nmodel: {name: llama-3-8b, seq: 2048}\n");
    assert_string_equal(ask.precision, "");
    assert_string_equal(ask.optimizer, "");
    live_ask_release(&ask);
}

static void bad_models_are_refused_by_the_name_of_the_key(void **state)
{
    (void)state;
    check_bad("run: t\nmodel: {seq: 8, config: models/a.json}\n",
              "j: line 2: 'config' is 'models/a.json', not the text of a "
              "config.json, which firn submit and firn plan put in the place "
              "of a path");
    static const char wrong[] =
        "run: t\nbatch: 1\nmodel:\n  seq: 8\n"
        "  config: '{\"model_type\": \"llama\", \"hidden_size\": -1}'\n";
    struct live_ask ask = {0};
    assert_int_equal(jobfile_read(&ask,
                                  (struct firn_bytes){wrong, sizeof wrong - 1},
                                  "j", &err),
                     FIRN_EINVAL);
    if (strncmp(err.text, "j: line 5: 'config': ", 21) != 0 ||
        strstr(err.text, "hidden_size") == NULL)
        fail_msg("%s", err.text);
    check_bad("run: t\nbatch: 1\nmodel:\n  seq: 8\n  hidden: 64\n"
              "  config: '" LLAMA "'\n",
              "j: line 6: 'config' has the model's numbers: remove 'hidden', "
              "'layers', 'heads' and 'vocab'");
    check_bad("run: t\nbatch: 1\nmodel:\n  name: llama-3.1-8b\n  seq: 8\n"
              "  lora: {ranks: 4}\n",
              "j: line 6: there is no key 'ranks' in 'lora'; it has rank, on, "
              "kind and precision");
    check_bad("run: t\nbatch: 1\nmodel:\n  name: llama-3.1-8b\n  seq: 8\n"
              "  lora: 4\n  mode: full\n",
              "j: line 6: 'lora' and 'mode: full' contradict each other");
    check_bad("run: t\nbatch: 1\nmodel: {name: llama-3.1-8b, seq: 8, "
              "zero: 4}\n",
              "j: line 3: 'zero' is '4', not one of 0|1|2|3|fsdp");
    check_bad("run: t\nbatch: 1\nmodel: {name: llama-3.1-8b, seq: 8, "
              "batch: 2}\n",
              "j: line 3: 'batch' is given twice");
}

static void unknown_keys_are_refused_with_the_nearest(void **state)
{
    (void)state;
    check_bad("run: x\n\ngpuss: 4\n", "j: line 3: there is no key 'gpuss'; "
                                      "did you mean gpus");
    check_bad("run: x\nfreeze:\n  rulle: off\n",
              "j: line 3: there is no key 'rulle' in 'freeze'; did you mean "
              "rule");
    check_bad("run: x\nsomething-else: 1\n",
              "j: line 2: there is no key 'something-else'");
    check_bad("run: x\nuser: root\n", "j: line 2: there is no key 'user'");
}

static void wrong_values_are_refused_with_their_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"run: x\ngpus: 0", "'gpus' is '0', not a number of GPUs such as 4, or "
                            "a range such as 1..8"},
        {"run: x\ngpus: 8..1", "'gpus' is '8..1', not a number of GPUs such as "
                               "4, or a range such as 1..8"},
        {"run: x\ngpus: [1]", "'gpus' is a list, not a number of GPUs such as "
                              "4, or a range such as 1..8"},
        {"run: x\ngpus:", "'gpus' has no value; it should be a number of GPUs "
                          "such as 4, or a range such as 1..8"},
        {"run: x\npriority: 101",
         "'priority' is '101', not a whole number from 0 to 100"},
        {"run: x\nshare: yes", "'share' is 'yes', not allowed or never"},
        {"run: x\nworkdir: ..", "'workdir' is '..', not an absolute path, such "
                                "as /data"},
        {"run: x\nname: 12", "'name' is '12', not a name with a letter in it "
                             "(digits alone are the number of a job)"},
        {"run: x\nname: ../a", "'name' is '../a', not 1 to 64 letters, digits "
                               "and . _ -, a letter or digit first"},
        {"run: x\nname: a b", "'name' is 'a b', not 1 to 64 letters, digits "
                              "and . _ -, a letter or digit first"},
        {"run: x\nfreeze: {max: 0}",
         "'max' is '0', not a share such as 90% or 0.9"},
        {"run: x\nfreeze: {max: 101%}",
         "'max' is '101%', not a share such as 90% or 0.9"},
        {"run: x\nfreeze: off", "'freeze' is 'off', not a mapping such as "
                                "{rule: ...}"},
        {"run: x\nelastic: {consistency: D3}",
         "'consistency' is 'D3', not one of D0|D1|D2"},
        {"run: x\nduration: soon",
         "'duration' is 'soon', not a time such as 90s, 45m, 2h or 1h30m"},
        {"run: x\nduration: 30m2h",
         "'duration' is '30m2h', not a time such as 90s, 45m, 2h or 1h30m"},
        {"run: x\nmemory: 40 apples",
         "'memory' is '40 apples', not a size such as 40GiB, 900MiB or 16GB"},
        {"run: x\ndeadline: tomorrow",
         "'deadline' is 'tomorrow', not a date such as 2026-11-20T18:00Z or "
         "2026-11-20T18:00:00+01:00"},
        {"run: x\ndeadline: 2026-02-29T00:00Z",
         "'deadline' is '2026-02-29T00:00Z', not a date such as "
         "2026-11-20T18:00Z or 2026-11-20T18:00:00+01:00"},
        {"run: x\ngpu: []", "'gpu' is a list, not a GPU type such as a100, or "
                            "a list of at most 32"},
        {"run: x\ngpu: [a100, 'v|1']",
         "'gpu' is 'v|1', not the name of a GPU type, such as a100"},
        {"run: x\nretry: {on: [oom]}",
         "'on' is 'oom', not a list of 'failure' and 'lost'"},
        {"run: x\nenv: [a]", "'env' is a list, not a mapping of names to "
                             "values"},
        {"run: x\nenv: {1A: x}", "'1A': the name of a variable is letters, "
                                 "digits and _, and does not begin with a "
                                 "digit"},
        {"run: x\nenv: {FIRN_TOKEN: x}",
         "'FIRN_TOKEN': firn sets this variable itself"},
        {"run: x\nenv: {RANK: 0}", "'RANK': firn sets this variable itself"},
        {"run: x\nenv: {A: [b]}", "'env' is a list, not a text for each "
                                  "variable"},
        {"queue: x\nrun: []", "'run' is a list, not a command and its "
                              "arguments"},
        {"queue: x\nrun: [[a]]", "'run' is a list, not a command and its "
                                 "arguments"},
        {"queue: x\nrun: [a, {b: c}]", "'run' is a mapping, not a text for "
                                       "each argument"},
        {"run: x\ntarget: {epochs: 0}",
         "'epochs' is '0', not a whole number from 1 on"},
        {"run: x\nfinetune: {dataset: x}", "'finetune' needs 'base'"},
        {"run: x\nfreeze: {rule: off, max: 1}",
         "'max' and 'rule: off' contradict each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[400];
        snprintf(want, sizeof want, "j: line 2: %s", cases[i][1]);
        check_bad(cases[i][0], want);
    }
    check_bad("run: x\ngpus: 8\nelastic:\n  threads: 4\n",
              "j: line 4: 'threads' must be at least the most 'gpus'");
    check_bad("gpus: 4\n", "j: line 1: the key 'run' is missing: the command");
    check_bad("", "j: line 1: says nothing");
    check_bad("# nothing\n", "j: line 1: says nothing");
}

static void times_sizes_and_dates_are_read_with_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double want;
    } times[] = {{"90", 90},   {"90s", 90},    {"45m", 2700},
                 {"2h", 7200}, {"1.5h", 5400}, {"1d2h3m4s", 93784},
                 {"0", 0},     {"0s", 0}},
      sizes[] = {{"40", 40},      {"40GiB", 40},  {"40 GiB", 40},
                 {"512MiB", 0.5}, {"1TiB", 1024}, {"1GB", 1e9 / 1073741824.0}},
      dates[] = {{"1970-01-01T00:00Z", 0},
                 {"2000-02-29 12:34:56Z", 951827696},
                 {"2026-11-20T18:00Z", 1795197600},
                 {"2026-11-20T18:00-02:30", 1795206600},
                 {"2100-03-01T00:00:00z", 4107542400}};
    char text[100];
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        snprintf(text, sizeof text, "run: x\nduration: %s", times[i].text);
        struct live_ask ask = read_good(text);
        assert_true(ask.duration_s == times[i].want);
        live_ask_release(&ask);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(text, sizeof text, "run: x\nmemory: %s", sizes[i].text);
        struct live_ask ask = read_good(text);
        assert_true(ask.mem_gib == sizes[i].want);
        live_ask_release(&ask);
    }
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        snprintf(text, sizeof text, "run: x\ndeadline: %s", dates[i].text);
        struct live_ask ask = read_good(text);
        assert_true(ask.deadline_s == dates[i].want);
        live_ask_release(&ask);
    }
}

static void programs_of_many_lines_reach_the_command(void **state)
{
    (void)state;
    struct live_ask ask = read_good(
        "run: [python3, -c, \"if 1:\\n\\tprint(1)\"]\nenv: {A: \"b\\nc\", "
        "FIRN_TRAIN_LIB: x}");
    assert_string_equal(ask.env[1], "FIRN_TRAIN_LIB=x");
    assert_string_equal(ask.argv[2], "if 1:\n\tprint(1)");
    assert_string_equal(ask.env[0], "A=b\nc");
    live_ask_release(&ask);
}

static void hostile_texts_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"run: x\nrun: y", "line 2: 'run' is given twice, first in line 1"},
        {"run: x\nenv: {A: 1, A: 2}",
         "line 2: 'A' is given twice, first in line 2"},
        {"run: \"a\\x1b[31m\"",
         "line 1: control characters are not used in job files"},
        {"run: \"a\\0b\"",
         "line 1: control characters are not used in job files"},
        {"run: x\nname: \"a\\nb\"",
         "line 2: control characters are not used in job files"},
        {"run: x\nenv: {\"A\\n\": b}",
         "line 2: control characters are not used in job files"},
        {"run: \"a\\x9b\"",
         "line 1: control characters are not used in job files"},
        {"run: \"a\\x7f\"",
         "line 1: control characters are not used in job files"},
        {"run: |\n  a\n  b\n",
         "line 1: control characters are not used in job files"},
        {"run: [\"a\\x1b\"]",
         "line 1: control characters are not used in job files"},
        {"run: x\nenv: {A: \"\\r\"}",
         "line 2: control characters are not used in job files"},
        {"run: x\ngpu: [\"a\\n\"]",
         "line 2: control characters are not used in job files"},
        {"run: &a x\nname: *a",
         "line 1: tags and anchors are not used in job files"},
        {"run: *a", "line 1: aliases are not used in job files"},
        {"run: !!python/object:os.system x",
         "line 1: tags and anchors are not used in job files"},
        {"run: x\nenv: !!map {A: b}",
         "line 2: tags and anchors are not used in job files"},
        {"? [a]\n: b", "line 1: a key must be a word"},
        {"[run, x]", "line 1: a list, where 'run: ...' and other keys should "
                     "be"},
        {"run", "line 1: a single word, where 'run: ...' and other keys "
                "should be"},
        {"run: x\n---\nrun: y", "line 2: a second document"},
        {"run: [[[[[[x]]]]]]", "line 1: nested too deeply"},
        {"run: {", "line 2: did not find expected node content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[200];
        snprintf(want, sizeof want, "j: %s", cases[i][1]);
        check_bad(cases[i][0], want);
    }
    struct live_ask ask = {0};
    struct firn_bytes nul = {"run: a\0b", 8}, no_utf8 = {"run: \xff\xfe", 7};
    assert_int_equal(jobfile_read(&ask, nul, "j", &err), FIRN_EINVAL);
    assert_int_equal(jobfile_read(&ask, no_utf8, "j", &err), FIRN_EINVAL);
}

static void enormous_texts_are_refused_soon(void **state)
{
    (void)state;
    struct firn_buf text = {0};
    struct live_ask ask = {0};
    buf_puts(&text, "run: x\nenv: {");
    for (int i = 0; i < 2000; i++)
        buf_printf(&text, "A%d: 1, ", i);
    buf_puts(&text, "}");
    assert_int_equal(
        jobfile_read(&ask, (struct firn_bytes){text.at, text.n}, "j", &err),
        FIRN_EINVAL);
    assert_string_equal(err.text, "j: line 2: too many entries");
    buf_clear(&text);
    buf_puts(&text, "run: x\nname: ");
    for (int i = 0; i < 100; i++)
        buf_putc(&text, 'a');
    assert_int_equal(
        jobfile_read(&ask, (struct firn_bytes){text.at, text.n}, "j", &err),
        FIRN_EINVAL);
    for (int i = 0; i < 300000; i++)
        buf_putc(&text, '[');
    assert_int_equal(
        jobfile_read(&ask, (struct firn_bytes){text.at, text.n}, "j", &err),
        FIRN_EINVAL);
    assert_string_equal(err.text,
                        "j: line 1: 300113 bytes; a job file has at most "
                        "262144");
    assert_int_equal(
        jobfile_read(&ask, (struct firn_bytes){NULL, 0}, "j", &err),
        FIRN_EINVAL);
    buf_release(&text);
}

static void the_spec_has_what_core_schedules_by(void **state)
{
    (void)state;
    struct live_ask ask = read_good(everything);
    struct firn_job_spec spec;
    jobfile_spec(&ask, 12, &spec);
    assert_string_equal(spec.name, "resnet-50.a_b");
    assert_string_equal(spec.app, "resnet50");
    assert_string_equal(spec.group, "research");
    assert_string_equal(spec.types, "a100|V100");
    assert_true(spec.submit_s == 12 && spec.duration_s == 5400 &&
                spec.restart_s < 0 && spec.mem_gib == 0.5);
    assert_int_equal(spec.gpus, 8);
    assert_int_equal(spec.gpus_min, 1);
    assert_int_equal(spec.gpus_max, 8);
    assert_int_equal(spec.batch, 256);
    assert_int_equal(spec.priority, 70);
    assert_int_equal(spec.threads, 8);
    assert_true(spec.may_share && spec.may_merge && !spec.is_nominal);
    assert_false(spec.one_type); /* D2, and its scan passed */
    assert_true(spec.best_effort);
    live_ask_release(&ask);
    ask = read_good("run: x\nelastic: {threads: 4}");
    jobfile_spec(&ask, 0, &spec);
    assert_true(spec.one_type); /* D1 */
    assert_false(spec.best_effort);
    live_ask_release(&ask);
    ask = read_good("run: x");
    jobfile_spec(&ask, 0, &spec);
    assert_true(spec.is_nominal && spec.duration_s > 0);
    assert_false(spec.may_share || spec.may_merge || spec.one_type);
    live_ask_release(&ask);
}

/* D2 is what the scan of the model allows, or what the user insists on. */
static void d2_counts_only_with_a_scan_that_passed(void **state)
{
    static const struct {
        const char *lines;
        bool one_type;
    } rows[] = {{"consistency: D2", true},
                {"consistency: D2, scan: failed", true},
                {"consistency: D2, scan: passed", false},
                {"consistency: D2, scan: insist", false},
                {"consistency: D1, scan: passed", true},
                {"consistency: D0, scan: insist", true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct firn_job_spec spec;
        snprintf(text, sizeof text, "run: x\nelastic: {%s}", rows[i].lines);
        struct live_ask ask = read_good(text);
        jobfile_spec(&ask, 0, &spec);
        if (spec.one_type != rows[i].one_type)
            fail_msg("%s: one type is %d", rows[i].lines, spec.one_type);
        live_ask_release(&ask);
    }
}

static void the_examples_of_the_manual_are_good(void **state)
{
    (void)state;
    struct firn_buf page = file_text("docs/jobs.md");
    size_t n = 0;
    for (char *at = page.at; (at = strstr(at, "```yaml\n")) != NULL; n++) {
        char *end = strstr(at + 8, "```");
        struct firn_buf text = {0};
        assert_non_null(end);
        buf_add(&text, at + 8, (size_t)(end - at - 8));
        if (strstr(text.at, "run:") == NULL)
            buf_puts(&text, "run: x\n");
        struct live_ask ask = read_good(text.at);
        live_ask_release(&ask);
        buf_release(&text);
        at = end + 3;
    }
    assert_true(n >= 8);
    buf_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            commands_that_start_processes_themselves_are_started_once),
        cmocka_unit_test(a_job_file_needs_only_a_command),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(json_is_read_like_yaml),
        cmocka_unit_test(mappings_have_defaults_of_their_own),
        cmocka_unit_test(a_command_text_is_split_at_blanks_outside_quotes),
        cmocka_unit_test(a_language_model_is_known_by_name_or_numbers),
        cmocka_unit_test(
            a_config_is_the_model_with_the_defaults_of_firn_memory),
        cmocka_unit_test(the_words_of_firn_memory_are_read),
        cmocka_unit_test(bad_models_are_refused_by_the_name_of_the_key),
        cmocka_unit_test(unknown_keys_are_refused_with_the_nearest),
        cmocka_unit_test(wrong_values_are_refused_with_their_line),
        cmocka_unit_test(times_sizes_and_dates_are_read_with_their_units),
        cmocka_unit_test(programs_of_many_lines_reach_the_command),
        cmocka_unit_test(hostile_texts_are_refused),
        cmocka_unit_test(enormous_texts_are_refused_soon),
        cmocka_unit_test(the_spec_has_what_core_schedules_by),
        cmocka_unit_test(d2_counts_only_with_a_scan_that_passed),
        cmocka_unit_test(the_examples_of_the_manual_are_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
