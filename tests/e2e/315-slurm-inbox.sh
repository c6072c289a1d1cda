#!/bin/sh
# People keep sbatch: jobs sent to a closed partition are taken in, placed among
# firn's own and let go; their ends are seen, cancels go both ways, and a
# scheduler that was killed neither loses nor doubles one. A name with the end
# of a line in it is one job and a strange name.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x2:v100@16

# later NAME OPTION...: a user sends a job to the inbox, which ends when the
# file go-NAME is there.
later()
{
    name=$1
    shift
    timeout 240 sbatch --parsable -p inbox -J "$name" -o "$tmp/$name.out" "$@" \
        --wrap "echo \$CUDA_VISIBLE_DEVICES
            until [ -e '$tmp/go-$name' ]; do sleep 0.1; done" ||
        fail "sbatch failed"
}

# is_there ID STATE: does Slurm have it so? in_slurm waits for that.
is_there()
{
    [ "$(timeout 240 squeue -h -a -t all -j "$1,$1" -o %T)" = "$2" ]
}

in_slurm()
{
    await "Slurm does not have $1 as $2" is_there "$@"
}

# is_only WORDS: all that Slurm still has.
is_only()
{
    [ "$(timeout 240 squeue -h -a -o '%i %P %T')" = "$1" ]
}

up --policy fifo --set slurm.poll=0.1 --set slurm.inbox=inbox
first=$(later first --gres=gpu:2) || fail "$first"
wait_state first running
in_slurm "$first" RUNNING
own=$(later own --gpus=1 --time=5) || fail "$own"
odd=$(later odd -N2 --gpus-per-node=1) || fail "$odd"
wait_state own running
[ "$(field own gpus)" = "n1[0]" ] || fail "own is on $(field own gpus)"

# A failure is a failure.
timeout 240 sbatch -Q -p inbox -J bad -o /dev/null --gres=gpu:1 \
    --wrap 'exit 3' || fail "sbatch failed"
wait_state bad failed

# Its GPUs are not given out a second time.
submit ours 2 "" sleep 1
wide=$(later wide -N2 --gpus-per-node=2) || fail "$wide"
strange=$(timeout 240 sbatch --parsable -p inbox -o /dev/null --gres=gpu:1 \
    -J "x
99|PENDING|inbox" --wrap 'exec sleep 3000') || fail "sbatch failed"
wait_state wide pending
wait_state x-99-PENDING-inbox pending # both are known
touch "$tmp/go-own"
wait_state own succeeded
wait_state ours succeeded
[ "$(field ours epoch)" = 1 ] || fail "ours was started $(field ours epoch) times"
[ "$(cat "$tmp/own.out")" != "" ] || fail "own has not run"
[ "$(field wide state)" = pending ] || fail "wide is $(field wide state)"

# The scheduler dies; of what waits one is taken away meanwhile.
down KILL
timeout 240 scancel "$strange"
up --policy fifo --set slurm.poll=0.1 --set slurm.inbox=inbox
wait_state x-99-PENDING-inbox cancelled
[ "$(field first state)" = running ] || fail "first is $(field first state)"
[ "$(field first epoch)" = 1 ] || fail "first was started again"
[ "$(field wide state)" = pending ] || fail "wide is $(field wide state)"

# Cancelled here, it ends there; and the other way round.
api POST /jobs/first/cancel "" >/dev/null || fail "not cancelled"
wait_state first cancelled
in_slurm "$first" CANCELLED
wait_state wide running
in_slurm "$wide" RUNNING
timeout 240 scancel "$wide"
wait_state wide cancelled

# What cannot be placed is as it was, and so is what is not for us.
await "Slurm has more than job $odd" is_only "$odd inbox PENDING"
grep -q "job $odd of the inbox is left alone" "$tmp/err" || fail "not said"
[ "$(api GET '/jobs?all=1' | tr '{' '\n' | grep -c '"queue": "inbox"')" = 5 ] ||
    fail "not one job for each"
# A slow Slurm may have been reported, but only as slow.
grep 'does not answer' "$tmp/err" | grep -v -e 'too long' -e 'imed out' \
    -e 'ontact' -e 'onnect' -e 'Zero Bytes' -e 'ommunication' &&
    fail "a name was taken for an answer"
grep 'cannot be read: squeue printed' "$tmp/err" &&
    fail "a name was taken for a record"
[ "$own" -gt 0 ] || fail "no number"
down
exit 0
