/* ckptcheck.h - is every checkpoint of a folder whole, and are two the same?
 *
 * By the program itself: `firn train show` reads every byte and its checksums,
 * `firn train diff` compares two files bit by bit.
 */
#ifndef TESTS_LIB_CKPTCHECK_H
#define TESTS_LIB_CKPTCHECK_H
#include <stdbool.h>

enum { CKPTCHECK_PATH = 400, CKPTCHECK_SAID = 300 };

/* False: a file is torn, or a draft is there that should not be; `said` has
 * which. The newest checkpoint is in `newest`, "" when there is none. */
bool ckptcheck_folder(const char *firn, const char *folder,
                      bool may_have_drafts, char newest[CKPTCHECK_PATH],
                      char said[CKPTCHECK_SAID]);
/* Have both the same weights and the same optimiser? What else was measured
 * (reports, times) may differ. */
bool ckptcheck_is_same(const char *firn, const char *a, const char *b);

#endif
