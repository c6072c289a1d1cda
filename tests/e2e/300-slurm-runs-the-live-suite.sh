#!/bin/sh
# The tests of the live scheduler, each once more with --engine slurm and a
# Slurm of its own on this host. They wait for trainers most of the time, so
# several run at once.
. tests/lib/e2e.sh
PATH=$PATH:/usr/sbin
command -v slurmctld >/dev/null || skip "Slurm is not installed"
command -v sbatch >/dev/null || skip "Slurm has no commands here"
[ -x "${FIRN}d" ] || skip "firnd is not built"
FIRND_ENGINE=slurm
export FIRND_ENGINE FIRN
# Slurm's own commands do not bear a clock that jumps: they sign with the time.
# PyTorch over nodes is 320.
suite=$(ls tests/e2e/2??-live-*.sh | grep -v -e clock-jumps -e pytorch)
# In the check those whose course depends on the engine: ends, sizes, restarts of
# firnd, sharing, commands, merged jobs, killed and silent trainers, jobs that
# delete their files, long logs. FIRN_SOAK=1 runs all.
[ -n "${FIRN_SOAK:-}" ] || suite=$(echo "$suite" | grep -e '/2[0-2]0-' \
    -e '/230-' -e '/2[45]0-' -e '/26[15]-' -e '/27[168]-')
# Under a checker one is enough: the others have had theirs.
[ -z "${FIRN_QUICK:-}" ] || suite=tests/e2e/200-live-a-job-runs-to-its-end.sh
unset TALLY
# shellcheck disable=SC2086 # words
tools/run_tests.sh -j 3 -t 550 $suite >"$tmp/said" 2>&1 || {
    cat "$tmp/said"
    fail "not everything that runs on this host runs on Slurm"
}
# What was skipped is told.
grep -e skip -e passed "$tmp/said"
exit 0
