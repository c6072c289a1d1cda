/* ckptcheck.h - is every checkpoint of a folder whole, and are two the same?
 *
 * The program itself answers: `firn train show` reads every byte and its
 * checksums, `firn train diff` compares two files bit by bit.
 */
#ifndef TESTS_LIB_CKPTCHECK_H
#define TESTS_LIB_CKPTCHECK_H
#include <stdbool.h>

enum { CKPTCHECK_PATH = 400, CKPTCHECK_SAID = 300 };

/* Returns false if a checkpoint is torn or a draft is left over; `said` names
 * it. Writes the path of the newest checkpoint to `newest`, "" for none. */
bool ckptcheck_folder(const char *firn, const char *folder,
                      bool may_have_drafts, char newest[CKPTCHECK_PATH],
                      char said[CKPTCHECK_SAID]);
/* True if both have the same weights and optimiser. Measurements in them
 * (reports, times) may differ. */
bool ckptcheck_is_same(const char *firn, const char *a, const char *b);

#endif
