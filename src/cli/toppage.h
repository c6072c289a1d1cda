/* toppage.h - the pages of `firn top` as lines with styles (cli/screen.h).
 */
#ifndef CLI_TOPPAGE_H
#define CLI_TOPPAGE_H
#include "cli/topmodel.h"
#include <firn/bytes.h>

struct top_shown {
    const json_t *jobs, *nodes; /* answers; NULL before the first */
    const char *message;        /* error, question or result; "" for none */
    double now_s;
    bool has_styles; /* false: plain text, all jobs */
};

/* GPUs, nodes and the jobs that fit on `lines` lines, scrolled to the selected
 * job. */
void top_page(struct top_list *list, const struct top_shown *shown, int lines,
              struct firn_buf *out);
/* The keys. */
void top_help(struct firn_buf *out);
/* A text of several lines under a title, its last `lines` lines if it has
 * more and `from_end`. */
void top_text(const char *title, const struct firn_buf *text, int lines,
              bool from_end, struct firn_buf *out);

#endif
