#!/bin/sh
# Tests on Slurm once more where each node is a host of its own, with its own
# name, address, processes and /proc: firn must not expect to see the processes
# of another node, or to reach it as 127.0.0.1. An elastic job goes from host to
# host; a host dies with all that it runs; a killed scheduler comes back. In a
# soak, all tests of the live scheduler, and the faults at random.
. tests/lib/e2e.sh
PATH=$PATH:/usr/sbin:/sbin
command -v slurmctld >/dev/null && command -v sbatch >/dev/null ||
    skip "Slurm is not installed"
[ -x "${FIRN}d" ] || skip "firnd is not built"
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
command -v ip >/dev/null || skip "there is no ip(8) to make a network with"
unshare --net --mount ip link set lo up 2>/dev/null ||
    skip "no network namespace can be made here"
FIRND_ENGINE=slurm FIRND_HOSTS=1
export FIRND_ENGINE FIRND_HOSTS FIRN
suite="tests/e2e/310-*.sh tests/e2e/220-*.sh tests/e2e/330-*.sh" limit=550
# 271 kills workers by the numbers that they have on their host; for the clock
# see 300.
[ -z "${FIRN_SOAK:-}" ] || {
    suite=$(ls tests/e2e/2??-live-*.sh tests/e2e/3[1-5]?-*.sh \
        "${FIRN%/firn}/tests/fault/test_slurm" |
        grep -v -e clock-jumps -e killed-hung -e control-groups)
    limit=5400
}
unset TALLY
# shellcheck disable=SC2086 # words
tools/run_tests.sh -j 3 -t $limit -w "unshare --net --mount" $suite \
    >"$tmp/said" 2>&1 || {
    cat "$tmp/said"
    fail "not everything that runs on one host runs on several"
}
grep -e skip -e passed "$tmp/said"
exit 0
