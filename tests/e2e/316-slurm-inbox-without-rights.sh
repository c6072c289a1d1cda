#!/bin/sh
# A firnd whose user may not change other users' jobs: it says so at its start,
# their jobs of the inbox wait with Slurm's words, are still there after a
# restart of firnd, and hold no GPU meanwhile. With the right they run.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
. tests/lib/slurmpeople.sh
slurm_up 1x2:v100@16
up_as $keeper --policy fifo --set slurm.inbox=inbox
grep -q "may not change other users' jobs" "$tmp/err" || fail "not said"
id=$(cd / && as $ann timeout 240 sbatch --parsable -p inbox -J theirs -o /dev/null \
    --gres=gpu:2 --wrap 'exit 0') || fail "sbatch failed"
wait_why theirs 'Slurm refuses it'
submit ours 2 "" true
wait_state ours succeeded # it did not have to wait for the GPUs
says /jobs/theirs/why 'tried again within' || fail "$(api GET /jobs/theirs/why)"
down KILL
up_as $keeper --policy fifo --set slurm.inbox=inbox
wait_why theirs 'Slurm refuses it'
is_there "$id" PENDING || fail "job $id is not as its user left it"
down

# The same state, with the right.
chown -R root "$lab/state"
up_as root --allow-root --policy fifo --set slurm.inbox=inbox
wait_state theirs succeeded
in_slurm "$id" COMPLETED
down
exit 0
