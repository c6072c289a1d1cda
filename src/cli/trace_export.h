/* trace_export.h - `firn trace export`: the daemon's history as a trace.
 */
#ifndef CLI_TRACE_EXPORT_H
#define CLI_TRACE_EXPORT_H

/* A command of its own: argv[0] is "export"; the exit status. Without a client
 * in this build it says so. */
int trace_export(int argc, char **argv);

#endif
