#!/bin/sh
# Slurm preempts a trainer of firn for a job of another partition: with a grace
# and without one it gets SIGTERM and no other notice, writes a checkpoint,
# leaves, and goes on later. A program that SIGTERM ends is started again too.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
# A checkpoint may take many seconds where the disk is busy: neither Slurm's
# SIGKILL nor firn's may come before its end, so both wait for a minute.
cat >"$tmp/more" <<END
KillWait=60
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=60
PartitionName=low0 Nodes=ALL PriorityTier=1 GraceTime=0
PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF
END
slurm_up 1x1:v100@16 --more "$tmp/more"
long="--epochs $endless --samples 64 --judge 0 --pace 40 --every 1"

# preempt: a job of another user takes the node.
preempt()
{
    theirs=$(timeout 240 sbatch --parsable -p high --gres=gpu:1 -o /dev/null \
        --wrap 'exec sleep 3000') || fail "sbatch failed"
}

has_theirs()
{
    [ "$(timeout 240 squeue -h -j "$theirs" -o %T)" = RUNNING ]
}

for partition in low low0; do
    up --policy fifo --set slurm.partition=$partition --set slurm.poll=0.1
    # shellcheck disable=SC2086 # words
    submit "$partition" 1 "checkpoint: {grace: 60}" "$cnn" $long
    id=$(field "$partition" id)
    await "it has no checkpoint" saved "$id"
    preempt
    await "Slurm does not preempt" has_theirs
    await "the preempted attempt does not end" \
        says "/jobs/$partition" '"end": "'
    says "/jobs/$partition" '"end": "checkpoint"' ||
        fail "no checkpoint: $(api GET "/jobs/$partition")"
    timeout 240 scancel "$theirs"
    wait_field "$partition" epoch 2
    wait_state "$partition" running
    api POST "/jobs/$partition/cancel" "" >/dev/null || fail "not cancelled"
    wait_state "$partition" cancelled
    [ $partition = low0 ] || down
done

# Its own program dies of SIGTERM: Slurm knows that it was preempted.
submit plain 1 "checkpoint: {grace: 60}" sleep 3000
wait_state plain running
preempt
await "Slurm does not preempt" has_theirs
timeout 240 scancel "$theirs"
wait_field plain epoch 2
wait_state plain running
down
exit 0
