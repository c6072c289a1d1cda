#!/bin/sh
# Under icefrog, with the paper's options, two jobs share the one GPU at the next
# round when their utilisation and memory are known and add up to at most all of
# it: both are of an application that has a profile. A job whose application
# uses nine tenths of the GPU shares with neither and waits.
. tests/lib/firnd.sh
light="share: allowed
app: mobilenetv2-c
batch: 128
duration: 6000
checkpoint: {grace: 10}"
heavy="share: allowed
app: bert-base
batch: 128
duration: 6000
checkpoint: {grace: 10}"
work="--epochs $endless --samples 256 --judge 0 --pace 40"

up --gpus 1x1:h200@141 --policy icefrog --set icefrog.interval=1
# shellcheck disable=SC2086 # words
submit one 1 "$light" "$cnn" $work
wait_state one running
# shellcheck disable=SC2086 # words
submit busy 1 "$heavy" "$cnn" $work
# shellcheck disable=SC2086 # words
submit two 1 "$light" "$cnn" $work
wait_field one gpus "n0\[0\]~"
wait_field two gpus "n0\[0\]~"
wait_state two running
[ "$(field one state)" = running ] || fail "one is $(field one state)"
[ "$(field busy state)" = pending ] || fail "a third is on the GPU"
api POST /jobs/one/cancel "" >/dev/null
api POST /jobs/two/cancel "" >/dev/null
wait_state busy running
api POST /jobs/busy/cancel "" >/dev/null
down

# With idle=wait a job of 6000 s does not wait for one of 6000 s either.
rm -rf "$tmp/state"
up --gpus 1x1:h200@141 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.idle=wait
# shellcheck disable=SC2086 # words
submit one 1 "$light" "$cnn" $work
# shellcheck disable=SC2086 # words
submit two 1 "$light" "$cnn" $work
wait_field one gpus "n0\[0\]~"
wait_field two gpus "n0\[0\]~"
wait_state one running
wait_state two running
api POST /jobs/one/cancel "" >/dev/null
api POST /jobs/two/cancel "" >/dev/null
wait_state two cancelled
down
exit 0
