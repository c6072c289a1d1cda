/* diskuse.h - the space that a folder takes on disk. */
#ifndef DAEMON_DISKUSE_H
#define DAEMON_DISKUSE_H

/* GiB of all files below the folder, without following links; 0 if it cannot
 * be read. At most DISKUSE_MOST files are looked at. */
enum { DISKUSE_MOST = 20000 };
double diskuse_gib(const char *folder);

#endif
