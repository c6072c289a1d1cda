#!/bin/sh
# A reservation that begins later: a job goes to another node at its first
# start, and the next one waits with that reason and without a Slurm job, until
# the reservation is gone. Beside a user with many pending jobs firn's job keeps
# its place in Slurm's queue. `eta` counts from the moment at which Slurm expects
# to start a job.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x2:v100@16
timeout 240 scontrol create reservation=fans starttime=now+30minutes \
    duration=60 nodes=n0 flags=maint user=daemon >/dev/null || fail "no reservation"
up --policy fifo --set slurm.poll=0.1
submit beside 2 "checkpoint: {grace: 1}" sleep 3000
wait_field beside gpus 'n1*'
wait_state beside running
[ "$(field beside epoch)" = 1 ] || fail "it was tried on n0 first"
submit waits 2 "checkpoint: {grace: 1}" sleep 3000
wait_why waits 'reservation fans begins'
[ "$(field waits epoch)" = 0 ] || fail "it was submitted to Slurm"
timeout 240 scontrol delete reservation=fans || fail "the reservation stays"
wait_state waits running
[ "$(field waits gpus)" = "n0[0-1]" ] || fail "waits is on $(field waits gpus)"
api POST /jobs/waits/cancel "" >/dev/null || fail "not cancelled"
api POST /jobs/beside/cancel "" >/dev/null || fail "not cancelled"
wait_state waits cancelled
wait_state beside cancelled

# theirs N SECONDS: that many one-GPU jobs of another user.
theirs()
{
    timeout 240 sbatch -Q --array=1-"$1" --gres=gpu:1 -o /dev/null \
        --wrap "exec sleep $2" || fail "sbatch failed"
}
# Those that come later never end: behind them it would never start.
theirs 16 0.5
submit ours 1 "" sleep 3000
listed() { timeout 240 squeue -h -o %j | grep -q '^firn:'; }
await "ours is not in Slurm" listed
theirs 40 3000
wait_state ours running
[ "$(field ours epoch)" = 1 ] || fail "it lost its place: $(field ours epoch) starts"
api POST /jobs/ours/cancel "" >/dev/null || fail "not cancelled"
timeout 240 scancel -n wrap
none() { [ -z "$(timeout 240 squeue -h -o %i)" ]; }
await "jobs are left in Slurm" none

# All cores are in use for ten minutes, and no GPU.
cores=$(timeout 240 sbatch --parsable -N2 --exclusive --time=10 -o /dev/null \
    --wrap 'exec sleep 3000') || fail "sbatch failed"
submit late 1 "duration: 60" true
wait_why late 'Slurm expects to start it in'
start=$(api GET /jobs/late/eta | sed -n 's/.*"start_s": *\([0-9]*\).*/\1/p')
[ "${start:-0}" -gt 120 ] || fail "eta: $(api GET /jobs/late/eta)"
timeout 240 scancel "$cores"
wait_state late succeeded
down
exit 0
