/* jobfolder.h - opens the folder of a job below the state directory, as root.
 *
 * STATE is root's word; what is below it belongs to firnd's user, who could put
 * a link there. (1) So no link below STATE is followed.
 */
#ifndef LAUNCH_JOBFOLDER_H
#define LAUNCH_JOBFOLDER_H

/* Opens STATE/KIND/JOB; the caller closes it. -1: errno. */
int jobfolder_open(const char *state, const char *kind, int job);

#endif
