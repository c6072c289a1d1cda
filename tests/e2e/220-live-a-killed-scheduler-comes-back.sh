#!/bin/sh
# kill -9 of firnd: jobs go on and are taken over, what ended meanwhile is
# noticed, what waited still waits, nothing runs twice.
. tests/lib/firnd.sh
epochs=12
[ -z "${FIRN_QUICK:-}" ] || epochs=3
up --gpus 1x3:v100@16 --policy fifo
# after FILE: a job's last words, for it to end when it is told to.
after()
{
    echo "until [ -e $tmp/$1 ]; do sleep 0.2; done"
}
small="--samples 256 --judge 0 --pace 40"
submit runs 1 "" sh -c "$cnn --epochs $epochs $small && $(after checked)"
submit ends 1 "" sh -c \
    "$cnn --epochs 1 $small && $(after killed) && touch $tmp/ended"
# shellcheck disable=SC2086 # words
submit stays 1 "checkpoint: {grace: 10}" "$cnn" --epochs $endless $small
submit waits 3 "" "$cnn" --epochs 1 --samples 128 --judge 0
wait_state runs running
wait_state ends running
wait_state stays running
down KILL
touch "$tmp/killed"
await "a job did not end without the scheduler" [ -e "$tmp/ended" ]
up --gpus 1x3:v100@16 --policy fifo
wait_state ends succeeded
[ "$(field runs epoch)" = 1 ] || fail "a running job was started again"
[ "$(field stays epoch)" = 1 ] || fail "a running job was started again"
[ "$(field waits epoch)" = 0 ] || fail "GPUs were given out twice"
down KILL
up --gpus 1x3:v100@16 --policy fifo
api POST /jobs/stays/cancel "" >/dev/null || fail "not cancelled"
down KILL # in the midst of it
up --gpus 1x3:v100@16 --policy fifo
wait_state stays cancelled
[ "$(field waits epoch)" = 0 ] || fail "GPUs were given out twice"
touch "$tmp/checked"
wait_state runs succeeded
wait_state waits succeeded
[ "$(field waits epoch)" = 1 ] || fail "started $(field waits epoch) times"
[ "$(field runs epoch)" = 1 ] || fail "started $(field runs epoch) times"
down
exit 0
