/* recover.h - GPUs as they are written down, read again. */
#ifndef DAEMON_RECOVER_H
#define DAEMON_RECOVER_H
#include <firn/alloc.h>
#include <stdbool.h>

/* A number from 0 to `max` at *at, which is moved behind it; false: there is
 * none. */
bool recover_number(const char **at, int max, int *out);
/* "n0[0-3] n1[1,3]~" as firn_alloc_print() writes it; false: it is not. The
 * caller frees `out->parts` by mem_free. */
bool recover_alloc(const char *text, struct firn_alloc *out);
/* GPUs of such a text, a half-share as half; 0 for "-" or another text. */
double recover_gpus(const char *text);

#endif
