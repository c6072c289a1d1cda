#!/bin/sh
# An elastic job grows and shrinks while it trains, by its bounds and by a
# second job; its last weights are those of a run that nobody disturbed.
. tests/lib/firnd.sh
up --gpus 1x4:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
elastic="elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}"
small="--threads 4 --epochs 12 --samples 256 --judge 0"

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small --epochs 12

# The user's bounds: one GPU, four, two.
# shellcheck disable=SC2086 # words
submit job 1..1 "$elastic" "$cnn" $small --pace 40
wait_field job gpus 'n0\[?\]'
wait_state job running
api PATCH /jobs/job '{"gpus_min": 4, "gpus_max": 4}' >/dev/null ||
    fail "no new bounds"
wait_field job gpus 'n0\[0-3\]'
wait_state job running
api PATCH /jobs/job '{"gpus_min": 2, "gpus_max": 2}' >/dev/null ||
    fail "no new bounds"
wait_field job gpus 'n0\[?-?\]'
wait_state job running
# Held, it leaves by a checkpoint; released, it goes on.
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
[ "$(field job reason)" = held ] || fail "not because it is held"
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job succeeded 60
[ "$(field job epoch)" -ge 4 ] || fail "only $(field job epoch) starts"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
same whole job
down
exit 0
