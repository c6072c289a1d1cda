#!/bin/sh
# Forecasts of firnd are held against what happens to 20 real trainers on
# virtual GPUs: ends that are foretold (firn eta of all jobs), and what firn
# whatif says. In the check jobs take about a second each and the bar is wide,
# since the machine may be busy with other tests; where jobs take twice the time of
# their virtual GPUs nothing is judged. `make soak` runs longer jobs and more
# policies, firn plan as well, against the bar of 5 % of docs/forecasts.md.
. tests/lib/firnd.sh
only local "virtual GPUs are the local engine's"
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
command -v python3 >/dev/null || skip "there is no python3"
bin=${FIRN%/firn}
if [ -n "${FIRN_SOAK:-}" ]; then
    set -- --jobs 40 --length 2 --policies fifo,sjf,sjf-ffs,sjf-bsbf --bar 5
else
    set -- --jobs 20 --length 0.15 --gap 0.01 --every 0.2 --gpus 1x8:v100@16 \
        --policies fifo --no-pairs --no-plan --bar 50 --in-range 0.7 --slower 2
fi
TMPDIR=$tmp python3 bench/foretold.py --bin "$bin" "$@" >"$tmp/out" 2>"$tmp/err"
case $? in
0) ;;
77) skip "$(sed -n 's/^# the machine/the machine/p' "$tmp/out")" ;;
*) fail "forecasts are further from what happened than the bar" ;;
esac
cat "$tmp/out"
exit 0
