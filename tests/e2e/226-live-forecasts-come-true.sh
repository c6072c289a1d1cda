#!/bin/sh
# Forecasts of firnd are held against what happens to 20 real trainers on
# virtual GPUs: ends that are foretold (firn eta of all jobs), and what firn
# whatif says of another policy. In the check the bar is wide, since the machine
# may be busy with other tests; `make soak` runs longer jobs and more policies
# against bars of 10 % (the figures of a quiet machine are in docs/operate.md).
. tests/lib/firnd.sh
only local "virtual GPUs are the local engine's"
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
command -v python3 >/dev/null || skip "there is no python3"
bin=${FIRN%/firn}
if [ -n "${FIRN_SOAK:-}" ]; then
    set -- --jobs 40 --length 2 --policies fifo,sjf,sjf-ffs --bar 10
else
    set -- --jobs 20 --length 0.15 --gap 0.01 --every 0.2 --gpus 1x8:v100@16 \
        --policies fifo --bar 40 --hold 70 # 89 % beside 50 processes that compute
fi
TMPDIR=$tmp python3 bench/foretold.py --bin "$bin" "$@" >"$tmp/out" 2>"$tmp/err" ||
    fail "forecasts are further from what happened than the bar"
cat "$tmp/out"
exit 0
