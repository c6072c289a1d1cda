/* trials.c - how often a property test tries.
 */
#include "lib/trials.h"
#include <stdlib.h>

int trials(int normal)
{
    if (getenv("FIRN_QUICK") != NULL)
        return normal > 10 ? normal / 10 : 1;
    return getenv("FIRN_SOAK") != NULL ? normal * 20 : normal;
}
