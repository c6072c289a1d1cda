#!/bin/sh
# Two jobs that accept it run on one GPU at once; one that does not waits.
. tests/lib/firnd.sh
up --gpus 1x1:v100@16 --policy sjf-ffs
submit one 1 "$sharing" "$cnn" --epochs $endless --samples 256 --judge 0 --pace 250
submit two 1 "$sharing" "$cnn" --epochs $endless --samples 256 --judge 0 --pace 250
submit lone 1 "duration: 60" "$cnn" --epochs 1 --samples 128 --judge 0
wait_state one running
wait_state two running
[ "$(field one gpus)" = "n0[0]~" ] || fail "one holds $(field one gpus)"
[ "$(field two gpus)" = "n0[0]~" ] || fail "two holds $(field two gpus)"
[ "$(field lone state)" = pending ] || fail "a third is on the GPU"
api POST /jobs/one/cancel "" >/dev/null
api POST /jobs/two/cancel "" >/dev/null
wait_state lone succeeded
down
exit 0
