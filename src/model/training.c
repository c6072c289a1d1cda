/* training.c - settings of a training job as words, and what they mean.
 *
 * A job file, an option and a column of a trace have the same words. A setting
 * is a number from 1, in the order of its words, which is that of the enums in
 * firn/memory.h, followed by those that firn/peak.h alone knows; 0 is "not
 * said" and becomes the way that Frenzy's formula speaks of.
 */
#include <firn/peak.h>

#include <string.h>

static const char *const words[FIRN_TRAINING_SETTINGS][9] = {
    [FIRN_TRAINING_PRECISION] = {"fp32", "bf16", "amp", "megatron",
                                 "bf16-master"},
    [FIRN_TRAINING_OPTIMIZER] = {"adamw", "sgd", "sgd-plain", "adamw-foreach",
                                 "adamw-fused", "adamw-8bit", "adafactor",
                                 "lion"},
    [FIRN_TRAINING_ATTENTION] = {"eager", "sdpa"},
    [FIRN_TRAINING_CHECKPOINTING] = {"off", "layers", "selective"},
};

/* How many of the words memory.h has a value for; peak.h has one for all. */
static const unsigned char in_memory[FIRN_TRAINING_SETTINGS] = {4, 3, 2, 2};

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
    default:
        return &training->checkpointing;
    }
}

bool firn_training_set(struct firn_training *training,
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

const char *firn_training_word(const struct firn_training *training,
                               enum firn_training_setting setting)
{
    struct firn_training copy = *training;
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

bool firn_training_peak(const struct firn_training *training,
                        struct firn_peak_job *job)
{
    static const char *const names[] = {"precision", "optimizer", "attention",
                                        "checkpointing"};
    bool is_new = false;
    job->mode = FIRN_MODE_MEGATRON;
    job->optimizer = FIRN_OPT_ADAMW_FUSED; /* Megatron's */
    for (int i = 0; i < FIRN_TRAINING_SETTINGS; i++) {
        enum firn_training_setting setting = (enum firn_training_setting)i;
        struct firn_training copy = *training;
        const char *word = firn_training_word(training, setting);
        if (*word != '\0')
            firn_peak_set(job, names[i], word, NULL);
        is_new = is_new || *member(&copy, setting) > in_memory[i];
    }
    return is_new;
}
