#!/bin/sh
# `firn resize` of a running job whose trainer lets processes join and leave is no
# restart, also to a fixed number and under a policy that never resizes jobs. A job
# that would need GPUs while another job waits is placed anew by the policy.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
# resized N GPUS: have events told of N resizes, and has the job these GPUs?
resized()
{
    [ "$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")" = "$1" ] &&
        [ "$(field job gpus)" = "$2" ]
}
# bounds N|MIN..MAX: the user changes the bounds of the job.
bounds()
{
    "$FIRN" resize --socket "$socket" job "$1" >"$tmp/out" 2>&1 ||
        fail "resize to $1: $(cat "$tmp/out")"
}

up --gpus 1x4:v100@16 --policy fifo
submit job 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10, interval: 1}
freeze: {rule: off}" "$cnn" --threads 4 --batch 16 --epochs $endless \
    --samples 128 --judge 0 --pace 50
wait_state job running
await "no process can join" says /jobs/job '"join"'
bounds 1
await "it did not shrink: $(api GET /jobs/job)" resized 1 'n0[0]'
bounds 3..4
await "it did not grow: $(api GET /jobs/job)" resized 2 'n0[0-2]'
[ "$(field job epoch)" = 1 ] || fail "it was restarted: $(events)"

# Another job waits for two GPUs: the policy decides which job has them.
submit next 2 "" "$cnn" --threads 2 --epochs $endless --samples 128 --pace 50
bounds 4
wait_state next running
says "/events?limit=1000" 'its user changed its bounds: it is placed anew' ||
    fail "it was not sent away: $(events)"
down
exit 0
