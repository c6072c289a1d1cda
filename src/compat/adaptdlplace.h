/* adaptdlplace.h - where AdaptDL's Tiresias and Optimus put jobs.
 */
#ifndef COMPAT_ADAPTDLPLACE_H
#define COMPAT_ADAPTDLPLACE_H
#include "core/place.h"

place_rule adaptdl_place;

#endif
