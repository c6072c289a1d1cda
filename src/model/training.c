/* training.c - settings of a training job as words, and what they mean.
 *
 * A job file, an option and a column of a trace have the same words. A setting
 * of one word is a number from 1, in the order of its words, which is that of
 * the enums in firn/memory.h, followed by those that firn/peak.h alone knows; 0
 * is "not said" and becomes the way that Frenzy's formula speaks of. Sets are
 * bits, ranks and passes are numbers; 0 is "not said" there too.
 */
#include <firn/peak.h>

#include "base/str.h"
#include <string.h>

enum { WORDS_MAX = 9 };

/* Rows without words are numbers or sets. */
static const char *const words[FIRN_TRAINING_SETTINGS][WORDS_MAX] = {
    [FIRN_TRAINING_PRECISION] = {"fp32", "bf16", "amp", "megatron",
                                 "bf16-master"},
    [FIRN_TRAINING_OPTIMIZER] = {"adamw", "sgd", "sgd-plain", "adamw-foreach",
                                 "adamw-fused", "adamw-8bit", "adafactor",
                                 "lion"},
    [FIRN_TRAINING_ATTENTION] = {"eager", "sdpa"},
    [FIRN_TRAINING_CHECKPOINTING] = {"off", "layers", "selective"},
    [FIRN_TRAINING_LOSS] = {"plain", "chunked", "fused"},
    [FIRN_TRAINING_MODE] = {"full", "lora", "dora", "qlora"},
    [FIRN_TRAINING_ZERO] = {"0", "1", "2", "3", "fsdp"},
    [FIRN_TRAINING_LORA_PRECISION] = {"fp32", "bf16"},
};

/* How many of the words memory.h has a value for; peak.h has one for all. */
static const unsigned char in_memory[FIRN_TRAINING_COLUMNS] = {4, 3, 2, 2};

enum { RANK_MAX = 1 << 15, PASSES_MAX = 1 << 20 };

/* Of a setting of one word. */
static unsigned char *member(struct firn_training *training,
                             enum firn_training_setting setting)
{
    switch (setting) {
    case FIRN_TRAINING_PRECISION:
        return &training->precision;
    case FIRN_TRAINING_OPTIMIZER:
        return &training->optimizer;
    case FIRN_TRAINING_ATTENTION:
        return &training->attention;
    case FIRN_TRAINING_CHECKPOINTING:
        return &training->checkpointing;
    case FIRN_TRAINING_LOSS:
        return &training->loss;
    case FIRN_TRAINING_MODE:
        return &training->mode;
    case FIRN_TRAINING_ZERO:
        return &training->zero;
    default:
        return &training->lora_precision;
    }
}

static bool set_word(struct firn_training *training,
                     enum firn_training_setting setting, const char *word)
{
    unsigned char value = 0;
    if (*word != '\0') {
        int i = 0;
        while (words[setting][i] != NULL &&
               strcmp(words[setting][i], word) != 0)
            i++;
        if (words[setting][i] == NULL)
            return false;
        value = (unsigned char)(1 + i);
    }
    *member(training, setting) = value;
    return true;
}

/* peak.h reads sets, so that both have the same words. */
static bool set_bits(struct firn_training *training,
                     enum firn_training_setting setting, const char *word)
{
    bool is_on = setting == FIRN_TRAINING_LORA_ON;
    struct firn_peak_job job = {0};
    if (*word != '\0' && firn_peak_set(&job, is_on ? "lora_on" : "offload",
                                       word, NULL) != FIRN_OK)
        return false;
    if (is_on)
        training->lora_on = (unsigned char)job.on;
    else
        training->offload = (unsigned char)(job.offloads_optimizer +
                                            2 * job.offloads_activations);
    return true;
}

static bool set_number(struct firn_training *training,
                       enum firn_training_setting setting, const char *word)
{
    bool is_rank = setting == FIRN_TRAINING_LORA;
    long number = 0;
    if (*word != '\0' &&
        !str_int(word, 1, is_rank ? RANK_MAX : PASSES_MAX, &number))
        return false;
    if (is_rank)
        training->lora = (unsigned short)number;
    else
        training->accumulation = (int)number;
    return true;
}

bool firn_training_set(struct firn_training *training,
                       enum firn_training_setting setting, const char *word)
{
    switch (setting) {
    case FIRN_TRAINING_LORA:
    case FIRN_TRAINING_ACCUMULATION:
        return set_number(training, setting, word);
    case FIRN_TRAINING_LORA_ON:
    case FIRN_TRAINING_OFFLOAD:
        return set_bits(training, setting, word);
    default:
        return set_word(training, setting, word);
    }
}

const char *firn_training_word(const struct firn_training *training,
                               enum firn_training_setting setting)
{
    struct firn_training copy = *training;
    if (words[setting][0] == NULL)
        return "";
    unsigned value = *member(&copy, setting);
    return value > 0 ? words[setting][value - 1] : "";
}

/* The value of a setting from 0, or -1: not said, or not one of memory.h. */
static int known(const struct firn_training *training,
                 enum firn_training_setting setting)
{
    struct firn_training copy = *training;
    int value = *member(&copy, setting);
    return value <= in_memory[setting] ? value - 1 : -1;
}

void firn_training_apply(const struct firn_training *training,
                         struct firn_memory_job *job)
{
    int precision = known(training, FIRN_TRAINING_PRECISION);
    int optimizer = known(training, FIRN_TRAINING_OPTIMIZER);
    int attention = known(training, FIRN_TRAINING_ATTENTION);
    job->precision = FIRN_PRECISION_MEGATRON;
    job->optimizer = FIRN_OPTIMIZER_ADAMW;
    job->attention = FIRN_ATTENTION_EAGER;
    job->is_checkpointing = training->checkpointing > 1;
    if (precision >= 0)
        job->precision = (enum firn_precision)precision;
    if (optimizer >= 0)
        job->optimizer = (enum firn_optimizer)optimizer;
    if (attention >= 0)
        job->attention = (enum firn_attention)attention;
}

/* LoRA of rank 16 on q and v where nothing else is said, as firn memory. */
static void apply_adapter(const struct firn_training *training,
                          struct firn_peak_job *job)
{
    if (training->mode > 0)
        job->adapter = (enum firn_peak_adapter)(training->mode - 1);
    else if (training->lora > 0)
        job->adapter = FIRN_ADAPTER_LORA;
    if (job->adapter == FIRN_ADAPTER_NONE)
        return;
    job->rank = training->lora > 0 ? training->lora : 16;
    job->on =
        training->lora_on > 0 ? training->lora_on : FIRN_LLM_Q | FIRN_LLM_V;
    job->is_adapter_half = training->lora_precision == 2;
}

bool firn_training_peak(const struct firn_training *training,
                        struct firn_peak_job *job)
{
    static const char *const names[] = {
        [FIRN_TRAINING_PRECISION] = "precision",
        [FIRN_TRAINING_OPTIMIZER] = "optimizer",
        [FIRN_TRAINING_ATTENTION] = "attention",
        [FIRN_TRAINING_CHECKPOINTING] = "checkpointing",
        [FIRN_TRAINING_LOSS] = "loss",
    };
    bool is_new = false;
    job->mode = FIRN_MODE_MEGATRON;
    job->optimizer = FIRN_OPT_ADAMW_FUSED; /* Megatron's */
    for (int i = 0; i <= FIRN_TRAINING_LOSS; i++) {
        enum firn_training_setting setting = (enum firn_training_setting)i;
        struct firn_training copy = *training;
        const char *word = firn_training_word(training, setting);
        if (*word != '\0')
            firn_peak_set(job, names[i], word, NULL);
        is_new =
            is_new ||
            (i<FIRN_TRAINING_COLUMNS && * member(&copy, setting)> in_memory[i]);
    }
    apply_adapter(training, job);
    if (training->zero > 0)
        job->zero = training->zero > 3 ? 3 : training->zero - 1;
    job->offloads_optimizer = training->offload & 1;
    job->offloads_activations = training->offload & 2;
    return is_new || training->loss > 0 || training->mode > 0 ||
           training->zero > 0 || training->lora_precision > 0 ||
           training->offload > 0 || training->lora_on > 0 ||
           training->lora > 0 || training->accumulation > 0;
}
