#!/bin/sh
# firn priority, resize, wait and policy change jobs and the policy, and say what
# is wrong with a value before anything is sent.
. tests/lib/firnd.sh
up --gpus 1x4:v100@16
FIRN_SOCKET=$socket
export FIRN_SOCKET
run 0 submit --hold --name w --gpus 1..2 --elastic -- sh -c 'exit 3'
run 0 priority w 70
out_has "has priority 70"
is w priority 70 || fail "the priority is '$value'"
run 0 resize w 1..3
out_has "asks for 1 to 3 GPUs"
is w gpus_max 3 || fail "the most GPUs are '$value'"
run 0 resize w 2
out_has "asks for 2 GPUs"
run 2 resize w four
err_has "'four' is not"
run 2 priority w 101
err_has "from 0 to 100"
run 1 priority nothing 1
run 0 release w
run 3 wait w
err_has "failed"
run 0 submit --name ok -- true
run 0 wait ok
run 1 wait nothing

# A job that can never run is refused, or taken by --anyway.
run 1 submit --gpus 5 -- true
err_has "wants 5 GPUs, the cluster has 4"
run 1 submit --memory 40GB -- true
err_has "v100 with 16 GiB"
run 1 submit --gpu h100 -- true
err_has "the cluster has v100"
run 2 submit --gpus four -- true
err_has "--gpus"
run 0 submit --anyway --gpus 5 --name large -- true
run 0 cancel large

# A job waits for others; one that waits in vain is cancelled.
run 0 submit --hold --name first -- true
run 0 submit --after ok:first --name second -- true
second=$(cat "$tmp/out")
is "$second" waits_for "ok:*" || fail "it waits for '$value'"
says "/jobs/$second/why" "waits for job" || fail "why: $(api GET "/jobs/$second/why")"
run 0 submit --after fail:first --name never -- true
run 1 submit --after ok:nothing -- true
run 1 submit --after soon:first -- true
err_has "ok:JOB, fail:JOB and any:JOB"
run 0 release first
run 0 wait second
run 1 wait never
err_has "cancelled"

# A job that ignores requests to end is killed by --force, long before its grace
# of an hour is over.
[ "$engine" = slurm ] || {
    run 0 submit --grace 1h --name deaf -- sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done'
    is_ready() { api GET "/jobs/deaf/logs?limit=1000" | grep -q ready; }
    await "the deaf job does not start" is_ready
    run 0 cancel deaf
    out_has "is being cancelled"
    run 0 cancel --force deaf
    wait_state deaf cancelled
}
run 0 policy
out_has "firn"
run 0 policy fifo --set skip=1
out_has "fifo"
says /policy '"name": "fifo"' || fail "the policy was not changed"
run 1 policy nothing
down
