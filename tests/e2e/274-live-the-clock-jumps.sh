#!/bin/sh
# The time of day jumps a day ahead and two days back under a running scheduler:
# it goes by the clock that does not. Retries come when they are due and no
# sooner, graces last as long as they should, times in its history do not go
# back. Started anew with the clock behind, it goes on all the same.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "a sanitizer is to be loaded first"

# The time of day, and what is in a file on top of it.
cat >"$tmp/jump.c" <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void)
{
    char text[32] = "";
    const char *path = getenv("JUMP");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtol(text, 0, 10) : 0;
}

int clock_gettime(clockid_t which, struct timespec *t)
{
    long rc = syscall(SYS_clock_gettime, which, t);
    if (rc == 0 && which == CLOCK_REALTIME)
        t->tv_sec += offset_s();
    return (int)rc;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
END
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$tmp/jump.so" "$tmp/jump.c" ||
    skip "no shared library can be made here"
JUMP=$tmp/jump
export JUMP
echo 0 >"$JUMP"

# jumping [OPTION]...: firnd under that clock.
jumping()
{
    LD_PRELOAD=$tmp/jump.so
    export LD_PRELOAD
    up --gpus 1x3:v100@16 --policy fifo "$@"
    unset LD_PRELOAD
}

# moments: of the history, a line each, in its order.
moments()
{
    events | sed -n 's/.*"at_s": *\([0-9.]*\).*/\1/p'
}

cat >"$tmp/bad" <<END
#!/bin/sh
cut -d . -f 1 /proc/uptime >>"$tmp/starts"
exit 3
END
cat >"$tmp/deaf" <<END
#!/bin/sh
trap '' USR1 TERM
: >"$tmp/isdeaf"
while :; do sleep 0.1; done
END
cat >"$tmp/waits" <<END
#!/bin/sh
while [ ! -e "$tmp/end" ]; do sleep 0.1; done
END
chmod +x "$tmp/bad" "$tmp/deaf" "$tmp/waits"
began=$(date +%s)
jumping
submit runs 1 "" "$tmp/waits"
submit deaf 1 "checkpoint: {grace: 1}" "$tmp/deaf"
submit bad 1 "retry: {on: [failure], max: 2}" "$tmp/bad"
wait_state runs running
wait_state deaf running
await "it hears" [ -e "$tmp/isdeaf" ]
wait_field bad retries '[12]'
echo 86400 >"$JUMP"
wait_field bad retries 2
echo -86400 >"$JUMP"
since=$(date +%s)
api POST /jobs/deaf/cancel "" >/dev/null || fail "not cancelled"
wait_state deaf cancelled
took=$(($(date +%s) - since))
[ "$took" -ge 1 ] || fail "a second took $took"
wait_state bad failed
# A second, and two: by the real clock.
[ "$(wc -l <"$tmp/starts")" = 3 ] || fail "starts: $(cat "$tmp/starts")"
awk '{ t[NR] = $1 } END { exit !(t[3] - t[1] >= 2) }' "$tmp/starts" ||
    fail "starts: $(cat "$tmp/starts")"
[ "$(field runs epoch)" = 1 ] || fail "it was started anew"
moments >"$tmp/times"
[ "$(wc -l <"$tmp/times")" -gt 8 ] || fail "no times in: $(events)"
sort -n "$tmp/times" | cmp -s - "$tmp/times" || fail "times go back: $(events)"
awk -v a="$began" -v b="$(date +%s)" '{ if ($1 < a - 1 || $1 > b + 1) exit 1 }' \
    "$tmp/times" ||
    fail "times jump: $(events)"
down KILL
jumping # a day behind what it has written
submit late 1 "" /bin/true
wait_state late succeeded
[ "$(field runs state)" = running ] || fail "runs is $(field runs state)"
: >"$tmp/end"
wait_state runs succeeded
for at in submitted_s started_s ended_s; do
    field runs $at
done >"$tmp/times"
sort -n "$tmp/times" | cmp -s - "$tmp/times" || fail "$(api GET /jobs/runs)"
api GET /metrics | grep '_sum -' && fail "time that was less than none"
down
exit 0
