#!/bin/sh
# A Slurm that follows and confines jobs by control groups, as most sites do. A
# job that goes beyond the memory that Slurm lets it have is out of memory, by
# Slurm's word; one that hides its children leaves none. In a soak, all tests of
# the live scheduler, one at a time.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
without_slurm=skip # not every host lets it make control groups
slurm_up 1x2:v100@16 --cgroups
up --policy fifo --set slurm.options=--mem=64
# Were it not confined, it would end by itself, and for another reason.
submit eats 1 "" sh -c "ulimit -v 1000000; exec tail /dev/zero"
wait_state eats failed
[ "$(field eats reason)" = out-of-memory ] || fail "eats: $(api GET /jobs/eats)"

cat >"$tmp/hides" <<END
#!/bin/sh
setsid env -i /bin/sleep 600.$$ &
: >"$tmp/hidden"
wait
END
chmod +x "$tmp/hides"
hidden()
{
    grep -lszx "600\\.$$" /proc/[0-9]*/cmdline >/dev/null
}
submit hides 1 "checkpoint: {grace: 1}" "$tmp/hides"
await "the job has not hidden its process" [ -e "$tmp/hidden" ]
await "the process is not hidden" hidden
api POST /jobs/hides/cancel "" >/dev/null || fail "not cancelled"
wait_state hides cancelled
await "the hidden one is left" eval '! hidden'
down
[ -n "${FIRN_SOAK:-}" ] || exit 0

tools/slurm-bed down --dir "$bed"
FIRND_CGROUPS=1
export FIRND_ENGINE FIRND_CGROUPS FIRN
suite=$(ls tests/e2e/2??-live-*.sh tests/e2e/3[135]?-*.sh |
    grep -v -e clock-jumps -e pytorch -e control-groups)
unset TALLY SLURM_CONF
# shellcheck disable=SC2086 # words
tools/run_tests.sh -j 1 -t 550 $suite >"$tmp/said" 2>&1 || {
    cat "$tmp/said"
    fail "not everything runs where Slurm has control groups"
}
grep -e skip -e passed "$tmp/said"
exit 0
