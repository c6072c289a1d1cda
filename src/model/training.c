/* training.c - settings of a training job as words, and what they mean.
 *
 * A job file, an option and a column of a trace have the same words. A setting
 * is a number from 1, in the order of its words, which is that of the enums in
 * firn/memory.h; 0 is "not said" and becomes the way that Frenzy's formula
 * speaks of.
 */
#include <firn/memory.h>

#include <string.h>

static const char *const words[FIRN_TRAINING_SETTINGS][5] = {
    [FIRN_TRAINING_PRECISION] = {"fp32", "bf16", "amp", "megatron"},
    [FIRN_TRAINING_OPTIMIZER] = {"adamw", "sgd", "sgd-plain"},
    [FIRN_TRAINING_ATTENTION] = {"eager", "sdpa"},
    [FIRN_TRAINING_CHECKPOINTING] = {"off", "layers"},
};

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

void firn_training_apply(const struct firn_training *training,
                         struct firn_memory_job *job)
{
    job->precision = FIRN_PRECISION_MEGATRON;
    job->optimizer = FIRN_OPTIMIZER_ADAMW;
    job->attention = FIRN_ATTENTION_EAGER;
    job->is_checkpointing = training->checkpointing == 2;
    if (training->precision > 0)
        job->precision = (enum firn_precision)(training->precision - 1);
    if (training->optimizer > 0)
        job->optimizer = (enum firn_optimizer)(training->optimizer - 1);
    if (training->attention > 0)
        job->attention = (enum firn_attention)(training->attention - 1);
}
