/* request.h - the six things that the launcher does for firnd.
 */
#ifndef LAUNCH_REQUEST_H
#define LAUNCH_REQUEST_H
#include "engine/identity.h"
#include <firn/bytes.h>
#include <pwd.h>
#include <stdbool.h>

/* Root's words, from the command line: no request changes them. */
struct request_rules {
    const char *state, *shepherd;
    const char *slurm; /* folder of Slurm's commands */
    unsigned long uid_min;
    struct identity own; /* of firnd */
    gid_t members;       /* the group whose members run jobs */
};

/* The user's entry, with its texts in `room`, and identity: all its groups but
 * root's. False: there is no such user. */
bool request_find_user(const char *name, struct passwd *entry, char *room,
                       size_t size, struct identity *out);
/* Does what the line asks for, and appends the answer: "ok NUMBER" or "no
 * SENTENCE" (engine/launchmsg.h). Nothing: another process answers to `fd`. */
void request_answer(const struct request_rules *rules, struct firn_bytes text,
                    int fd, struct firn_buf *out);

#endif
