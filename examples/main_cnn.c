/* main_cnn.c - the program `cnn`; see cnn.c for the model, loop.c for the loop.
 */
#include "models.h"

int main(int argc, char **argv)
{
    return loop_main(argc, argv, cnn_open);
}
