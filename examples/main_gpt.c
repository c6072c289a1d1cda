/* main_gpt.c - the program `gpt`; see gpt.c for the model, loop.c for the loop.
 */
#include "models.h"

int main(int argc, char **argv)
{
    return loop_main(argc, argv, gpt_open);
}
