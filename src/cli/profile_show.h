/* profile_show.h - `firn profile list` and `firn profile show`.
 */
#ifndef CLI_PROFILE_SHOW_H
#define CLI_PROFILE_SHOW_H

/* Run the subcommands; return the exit status. */
int profile_list(int argc, char **argv);
int profile_show(int argc, char **argv);

#endif
