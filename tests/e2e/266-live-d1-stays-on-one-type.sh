#!/bin/sh
# An elastic job of consistency D1 holds GPUs of one type, though it may have
# both, and comes back to that type: when it was held meanwhile, and when firnd
# was killed. While others have it, the job waits beside a free GPU.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
start()
{
    up --gpus 1x1:v100@16,1x1:t4@16 --policy easyscale \
        --set easyscale.interval=1 --set easyscale.again=1
}
# Until it says that it waits for its type.
wait_type()
{
    wait_why job 'waits for 1 GPU of v100; 0 free'
    [ "$(field job gpus)" = "-" ] || fail "it is on $(field job gpus)"
}

start
submit job 1..2 "elastic: {threads: 6, consistency: D1}
checkpoint: {grace: 10}
duration: 60" "$cnn" --threads 6 --epochs $endless --samples 256 --judge 0 --pace 250
wait_reported job step '[1-9]*'
sleep 1.2 # a round that could give it the other
[ "$(field job gpus)" = "n0[0]" ] || fail "it is on $(field job gpus)"
[ "$(field job epoch)" = 1 ] || fail "it was started again"

# Held; another takes its GPU; released, it does not take the t4.
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
submit other 1 "gpu: v100" sleep 600
wait_state other running
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_type

# Nor after a kill.
down KILL
start
wait_type
api POST /jobs/other/cancel "" >/dev/null || fail "not cancelled"
wait_field job gpus 'n0\[0\]'
wait_state job running
[ "$(field job epoch)" = 2 ] || fail "start $(field job epoch)"

# Killed while it runs: taken over, and on its type when it starts anew.
down KILL
start
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job running
[ "$(field job gpus)" = "n0[0]" ] || fail "it is on $(field job gpus)"
api POST /jobs/job/cancel "" >/dev/null || fail "not cancelled"
wait_state job cancelled
down
exit 0
