/* profile_page.h - fitted models and their errors as text and JSON.
 */
#ifndef CLI_PROFILE_PAGE_H
#define CLI_PROFILE_PAGE_H
#include "model/evaluate.h"
#include <firn/bytes.h>

/* One application: its models and their errors. */
struct profile_result {
    char app[64];
    size_t nfitted, ntested;
    struct evaluate_models models;
    struct evaluate_error error[EVALUATE_QUANTITIES];
};

/* All applications; `error` is over the rows of all of them. */
struct profile_results {
    const char *fit, *test; /* file names */
    struct profile_result *at;
    size_t n;
    struct evaluate_error error[EVALUATE_QUANTITIES];
};

/* Errors by application and quantity. */
void profile_page_errors(const struct profile_results *r, struct firn_buf *out);
void profile_page_errors_json(const struct profile_results *r,
                              struct firn_buf *out);

/* Fitted parameters, with the error on the fitted rows. */
void profile_page_models(const struct profile_results *r, struct firn_buf *out);
void profile_page_models_json(const struct profile_results *r,
                              struct firn_buf *out);

#endif
