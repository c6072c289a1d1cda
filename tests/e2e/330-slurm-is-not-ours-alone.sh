#!/bin/sh
# A Slurm that others use and whose parts fail: jobs of others are worked
# around, a node that is drained there is left by a checkpoint, one that dies
# costs no more than the work since the last checkpoint, and while the
# controller is away jobs run, submits wait, and `why` says so: also when the
# scheduler is killed and started meanwhile.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
slurm_up 3x2:v100@16
# Another user has all of n0.
timeout 240 sbatch -Q -w n0 --gres=gpu:2 -o /dev/null --wrap 'exec sleep 3000' ||
    fail "sbatch failed"
others=$(timeout 240 sbatch --parsable -w n1 --gres=gpu:v100s0:1 -o /dev/null \
    --wrap 'exec sleep 3000') || fail "sbatch failed"
both_run()
{
    [ "$(squeue -h -t R -o %i | wc -l)" -eq 2 ]
}
await "Slurm starts nothing" both_run
up --policy fifo
ckpt="checkpoint: {grace: 10}"
long="--epochs $endless --samples 256 --judge 0 --pace 250"
# shellcheck disable=SC2086 # words
submit one 1 "$ckpt" "$cnn" $long
# shellcheck disable=SC2086 # words
submit two 2 "$ckpt" "$cnn" $long
wait_state one running
wait_state two running
[ "$(field two gpus)" = "n2[0-1]" ] || fail "two is on $(field two gpus)"
[ "$(field one gpus)" = "n1[1]" ] || fail "one is on $(field one gpus)"

# They go when their user takes them away.
scancel -w n0 --state=RUNNING
timeout 240 scontrol update NodeName=n2 State=DRAIN Reason="new fan" ||
    fail "not drained"
wait_field two gpus 'n0\[0-1\]'
wait_state two running
[ "$(field two epoch)" = 2 ] || fail "start $(field two epoch)"
api GET /nodes >"$tmp/out"
out_has 'new fan'

# A node dies, its administrator tells Slurm, and it comes back empty.
tools/slurm-bed kill n0 --steps --dir "$bed" || fail "not killed"
timeout 240 scontrol update NodeName=n0 State=DOWN Reason="no power" ||
    fail "not down"
tools/slurm-bed start n0 --dir "$bed" || fail "not started"
is_back()
{
    [ -n "$(timeout 240 sinfo -h -r -n n0 -t idle,mixed,allocated -o %N)" ]
}
await "n0 does not come back" is_back
# Who has heard of this has heard of n0 what there was to hear.
timeout 240 scontrol update NodeName=n2 State=RESUME || fail "not resumed"
is_mended()
{
    api GET /nodes >"$tmp/out" && ! grep -q 'new fan' "$tmp/out"
}
await "n2 is still out" is_mended
wait_field two epoch '[3-9]' # more than 3: once more there before it was told
wait_state two running
[ "$(field one epoch)" = 1 ] || fail "another job was touched"

# The controller dies: jobs run on, submits are taken. What it has not written
# down, which it does every few seconds, it has forgotten.
starts=$(field two epoch)
timeout 240 scontrol update JobId="$others" Comment=from-now-on ||
    fail "not updated"
timeout 240 scontrol update NodeName=n1 Comment=from-now-on ||
    fail "not updated"
for of in job node; do # one after the other
    await "Slurm writes no ${of}s down" \
        grep -qsa from-now-on "$bed/ctld/${of}_state"
done
tools/slurm-bed kill ctld --dir "$bed" || fail "not killed"
submit late 1 "" "$cnn" --epochs 1 --samples 128 --judge 0
wait_why late slurmctld
[ "$(field one state)" = running ] || fail "one is $(field one state)"

# The same holds for a scheduler that starts while Slurm cannot list the nodes.
down KILL
up --policy fifo
api GET /nodes >"$tmp/out"
for node in n0 n1 n2; do
    out_has "\"$node\""
done
submit later 1 "" "$cnn" --epochs 1 --samples 128 --judge 0
submit never 1 "" "$cnn" --epochs 1 --samples 128 --judge 0
wait_why later 'slurmctld does not answer'
api POST /jobs/never/cancel "" >/dev/null || fail "not cancelled"
wait_state never cancelled
[ "$(field one state)" = running ] || fail "one is $(field one state)"
[ "$(field two state)" = running ] || fail "two is $(field two state)"
tools/slurm-bed start ctld --dir "$bed" || fail "not started"
wait_state late succeeded
wait_state later succeeded
[ "$(field one epoch)" = 1 ] || fail "one was started again"
[ "$(field two epoch)" = "$starts" ] || fail "two was started again"

# Nothing of ours is left in Slurm; what is not ours is as it was.
api POST /jobs/one/cancel "" >/dev/null || fail "not cancelled"
wait_state one cancelled
api POST /jobs/two/cancel "" >/dev/null || fail "not cancelled"
wait_state two cancelled
only_theirs()
{
    [ "$(squeue -h -o %j)" = wrap ]
}
await "something of ours is left in Slurm" only_theirs
down
exit 0
