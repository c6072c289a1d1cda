/* trace_table.c - the list of formats, made from traces.def.
 *
 * A format without its file is a link error. Formats are tried in this order,
 * but no two of them claim the same header (tests/trace/test_all.c).
 */
#include <firn/trace.h>

#define TRACE(id) extern const struct firn_trace_def firn_trace_##id;
#include "trace/traces.def"
#undef TRACE

static const struct firn_trace_def *const table[] = {
#define TRACE(id) &firn_trace_##id,
#include "trace/traces.def"
#undef TRACE
};

const struct firn_trace_def *const *firn_traces(size_t *n)
{
    *n = sizeof table / sizeof *table;
    return table;
}
