/* models.h - the models of the example trainers.
 *
 * cnn: pictures, batch normalisation and dropout. gpt: a text, bytes.
 */
#ifndef EXAMPLES_MODELS_H
#define EXAMPLES_MODELS_H
#include "loop.h"

model_open cnn_open, gpt_open;

#endif
