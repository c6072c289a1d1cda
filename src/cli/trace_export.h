/* trace_export.h - `firn trace export`: the job history of firnd as a trace.
 */
#ifndef CLI_TRACE_EXPORT_H
#define CLI_TRACE_EXPORT_H

/* Runs the subcommand (argv[0] is "export"); returns the exit status. */
int trace_export(int argc, char **argv);

#endif
