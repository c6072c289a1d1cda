#!/bin/sh
# People keep sbatch: jobs sent to a closed partition are taken in, placed among
# firn's own and let go; their ends are seen, cancels go both ways, and a
# scheduler that was killed neither loses nor doubles one. A name with the end
# of a line in it is one job and a strange name.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x2:v100@16

# later NAME SECONDS OPTION...: somebody sends a job to the inbox.
later()
{
    name=$1 seconds=$2
    shift 2
    timeout 20 sbatch --parsable -p inbox -J "$name" -o "$tmp/$name.out" "$@" \
        --wrap "echo \$CUDA_VISIBLE_DEVICES; exec sleep $seconds" ||
        fail "sbatch failed"
}

# in_slurm ID STATE: waits until Slurm has it so.
in_slurm()
{
    tries=0
    until [ "$(timeout 20 squeue -h -a -t all -j "$1,$1" -o %T)" = "$2" ]; do
        tries=$((tries + 1))
        [ $tries -lt 150 ] || fail "$1 is $(squeue -h -a -t all -j "$1,$1")"
        sleep 0.1
    done
}

up --policy fifo --set slurm.poll=0.1 --set slurm.inbox=inbox
first=$(later first 300 --gres=gpu:2)
wait_state first running
in_slurm "$first" RUNNING
own=$(later own 2 --gpus=1 --time=5)
odd=$(later odd 1 -N2 --gpus-per-node=1)
wait_state own running
[ "$(field own gpus)" = "n1[0]" ] || fail "own is on $(field own gpus)"

# A failure is a failure.
timeout 20 sbatch -Q -p inbox -J bad -o /dev/null --gres=gpu:1 \
    --wrap 'exit 3' || fail "sbatch failed"
wait_state bad failed

# Its GPUs are not given out a second time.
submit ours 2 "" sleep 1
wide=$(later wide 300 -N2 --gpus-per-node=2)
strange=$(timeout 20 sbatch --parsable -p inbox -o /dev/null --gres=gpu:1 \
    -J "x
99|PENDING|inbox" --wrap 'exec sleep 300') || fail "sbatch failed"
wait_state own succeeded
wait_state ours succeeded
[ "$(field ours epoch)" = 1 ] || fail "ours was started $(field ours epoch) times"
[ "$(cat "$tmp/own.out")" != "" ] || fail "own has not run"
[ "$(field wide state)" = pending ] || fail "wide is $(field wide state)"

# The scheduler dies; of what waits one is taken away meanwhile.
down KILL
timeout 20 scancel "$strange"
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
timeout 20 scancel "$wide"
wait_state wide cancelled

# What cannot be placed is as it was, and so is what is not for us.
[ "$(squeue -h -a -o '%i %P %T')" = "$odd inbox PENDING" ] ||
    fail "$(squeue -h -a)"
grep -q "job $odd of the inbox is left alone" "$tmp/err" || fail "not said"
[ "$(api GET '/jobs?all=1' | tr '{' '\n' | grep -c '"queue": "inbox"')" = 5 ] ||
    fail "not one job for each"
grep 'does not answer' "$tmp/err" && fail "a name was taken for an answer"
[ "$own" -gt 0 ] || fail "no number"
down
exit 0
