#!/bin/sh
# sjf-bsbf puts a second job on the GPU of a running one, in as many passes a
# step as memory asks for there. The running one is not touched. The guest's
# weights are those of a run in as many passes that had the GPU for itself. One
# that takes no such orders does not fit, and waits.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x1:v100@16 --policy sjf-bsbf
half="share: allowed
memory: 8GiB
batch: 32
checkpoint: {grace: 10}"
orders="elastic: {threads: 1}" # such jobs take them
small="--threads 1 --epochs 2 --samples 256 --judge 0"

submit host 1 "$half
$orders
duration: 60" "$cnn" --threads 1 --epochs $endless --samples 512 --judge 0 --pace 100
wait_state host running
# shellcheck disable=SC2086 # words
submit deaf 1 "$half
duration: 5" "$cnn" $small
# shellcheck disable=SC2086 # words
submit guest 1 "$half
$orders
duration: 10" "$cnn" $small
wait_state guest succeeded
held_once guest "n0[0]~" || fail "guest: $(api GET /jobs/guest)"
[ "$(field deaf state)" = pending ] || fail "deaf is $(field deaf state)"
[ "$(field host epoch)" = 1 ] || fail "the host was started anew"
passes=$(reported guest passes)
[ "$passes" -gt 1 ] || fail "guest has $passes passes"
before=$(reported host step)
goes_on()
{
    [ "$(reported host step)" -gt "${before:-0}" ] 2>/dev/null
}
await "the host stands still" goes_on
[ "$(reported host passes)" = 1 ] || fail "host: $(reported host passes) passes"
[ "$(field host state)" = running ] || fail "the host is $(field host state)"
[ "$(field host epoch)" = 1 ] || fail "the host was started anew"
api POST /jobs/host/cancel "" >/dev/null
wait_state deaf succeeded # alone, whole steps
[ "$(reported deaf passes)" = 1 ] || fail "deaf: $(reported deaf passes) passes"
down

weights_of 3 guest
weights_of 2 deaf
# shellcheck disable=SC2086 # words
FIRN_PASSES=$passes train alone 1 "" "$cnn" $small
same_weights alone guest
differ_weights deaf guest # sums in another order
exit 0
