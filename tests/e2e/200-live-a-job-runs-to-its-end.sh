#!/bin/sh
# firnd with declared GPUs: a job is taken, runs, reports, ends; its log is
# there; one that waits is cancelled, one that runs too; one that fails says so.
. tests/lib/firnd.sh
up --gpus 1x2:v100@16 --policy fifo

submit first 2 "" "$cnn" --epochs 1 --samples 128 --judge 0
submit long 2 "" "$cnn" --epochs $endless --samples 256 --judge 0 --pace 250
submit behind 1 "" "$cnn" --epochs 1 --samples 128 --judge 0
wait_state first succeeded
[ "$(field first epoch)" = 1 ] || fail "more than one start"
[ "$(field first gpus)" = - ] || fail "it still holds GPUs"
api GET /jobs/first/logs | grep -q "16 steps\|accuracy" || fail "no log"

wait_state long running
[ "$(field behind state)" = pending ] || fail "a GPU is held twice"
wait_why behind '"reason": "capacity"'
api GET /jobs/behind/why >"$tmp/out"
out_has 'waits for 1 GPU; 0 free'
api POST /jobs/behind/cancel "" >/dev/null || fail "not cancelled"
[ "$(field behind state)" = cancelled ] || fail "behind is not cancelled"
api POST /jobs/long/cancel "" >/dev/null || fail "not cancelled"
wait_state long cancelled
api GET /nodes >"$tmp/out"
out_has '"free": 2'

submit bad 1 "" /bin/false
wait_state bad failed
[ "$(field bad reason)" = exit ] || fail "no reason"
submit none 1 "" /no/such/program
wait_state none failed
events | grep -q '"kind": "succeeded"' || fail "no event"
down
exit 0
