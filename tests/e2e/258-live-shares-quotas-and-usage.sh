#!/bin/sh
# Projects have shares and quotas, `firn why` gives the numbers, `firn usage` adds
# up what jobs held over kills of the scheduler, and time limits end jobs.
. tests/lib/firnd.sh
only local "quotas are the same on Slurm, and its starts are slow"
cat >"$tmp/shares.yaml" <<END
slice: 0s
projects:
  - name: vision
    share: 3
    gpus: 1
    borrow: no
    queued: 3
    members: $(id -un), ann
  - name: speech
    members: $(id -un)
  - name: closed
    members: ann
END
up --gpus 1x4:v100@16 --policy fifo --shares "$tmp/shares.yaml"
FIRN_SOCKET=$socket
export FIRN_SOCKET
forever="while :; do sleep 1; done"

run 0 submit --name a --project vision --restart -- sh -c "$forever"
wait_state a running
run 0 submit --name b --restart -- sh -c "$forever" # of vision, by default
is b project vision || fail "the project of b is '$value'"
wait_why b "over quota: project vision holds 1 of 1 GPUs"
run 0 why b
out_has "over quota"
out_has "held by: job 1 of $(id -un), 1 GPU"
run 0 submit --name c --project speech --restart -- sh -c "$forever"
wait_state c running
run 0 submit --hold --name d -- true
run 1 submit --name e -- true
err_has "over quota: project vision has 3 unfinished jobs, of 3"
run 1 submit --project closed -- true
err_has "is not a member of project closed (member of: vision, speech)"
run 1 submit --project nothing -- true
err_has "which the operator has not set up"
run 1 submit --deadline 2099-01-01T00:00Z --project speech -- true
err_has "policy fifo does not plan for deadlines"
run 0 policies fifo
out_has "obeys  shares"
run 0 shares
out_has "vision"
out_has "1.0/1"

# A changed file holds after SIGHUP; a wrong one changes nothing.
sed -i 's/gpus: 1/gpus: none/' "$tmp/shares.yaml"
kill -HUP "$daemon"
await "the wrong file was not refused" says /events "not-reloaded"
sed -i 's/gpus: none/gpus: 2/' "$tmp/shares.yaml"
kill -HUP "$daemon"
wait_state b running

# One node and same type are kept; a time limit ends a job, with a signal before.
run 1 submit --gpus 5 --one-node --project speech -- true
run 0 submit --name signalled --project speech --one-node --same-type \
    --limit 3s --warn 2s -- \
    sh -c 'trap "echo warned" USR2; echo ready; while :; do sleep 0.1; done'
wait_state signalled cancelled
run 0 show signalled
out_has "cancelled: its time limit of 3 s is reached"
api GET "/jobs/signalled/logs?limit=1000" | grep -q warned || fail "no signal came"
events | grep -q "its time limit of 3 s is reached" || fail "no event"

# What was used is what was charged, also when the scheduler is killed.
down KILL
up --gpus 1x4:v100@16 --policy fifo --shares "$tmp/shares.yaml"
for job in a b c; do
    run 0 cancel $job
done
for job in a b c; do
    wait_state $job cancelled
done
run 0 usage --by project,user --since 1d -o csv
head -n 1 "$tmp/out" | grep -qx "project,user,gpu_hours,jobs,attempts" || fail "heads"
grep -q "^vision,$(id -un),.*,2,2\$" "$tmp/out" || fail "vision: $(cat "$tmp/out")"
used=$(awk -F, 'NR > 1 { sum += $3 } END { printf "%.6f", sum * 3600 }' "$tmp/out")
held=$(for job in a b c signalled; do
    api GET "/jobs/$job" | sed 's/.*"attempts"://; s/"epochs":.*//' | tr '{' '\n' |
        sed -n 's/.*"started_s": *\([0-9.]*\), *"ended_s": *\([0-9.]*\).*/\1 \2/p'
done | awk '{ sum += $2 - $1 } END { printf "%.6f", sum }')
awk -v a="$used" -v b="$held" 'BEGIN { exit !(a > 1 && a - b < 0.01 && b - a < 0.01) }' ||
    fail "charged $used s, held $held s: $(api GET /jobs/a)"

# Idle GPUs are lent beyond a quota, and taken back when another project needs them.
sed -i 's/borrow: no/borrow: yes/' "$tmp/shares.yaml"
kill -HUP "$daemon"
run 0 submit --name v1 --gpus 2 --restart -- sh -c "$forever"
run 0 submit --name v2 --gpus 2 --restart -- sh -c "$forever"
wait_state v1 running
wait_state v2 running
run 0 submit --name s --gpus 2 --project speech -- sh -c "$forever"
wait_state s running
wait_why v2 "over quota: project vision holds 2 of 2 GPUs"
is v1 state running || fail "the job within the quota is '$value'"
run 0 cancel s
wait_state v2 running
