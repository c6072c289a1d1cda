#!/bin/sh
# With firn-launch, an elastic job of a user grows on Slurm by a further allocation
# that is asked for as that user: squeue shows both as the user's, and the worker
# joins while the job trains. When another user's job comes, the allocation goes
# back. A job of another user that has the name of such an allocation is not taken
# for it.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
. tests/lib/slurmusers.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
slurm_up 2x1:v100@16
launcher_up
users_up --policy icefrog --set icefrog.interval=1 --set icefrog.restart=0
cp "$cnn" "$lab/cnn"
chmod 755 "$lab/cnn"

told()
{
    [ "$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")" -ge "$1" ]
}

# owners: the users of Slurm's jobs for attempt 1 of the job, pending or running.
owners()
{
    timeout 240 squeue -h -t PD,R -o '%u %j' |
        sed -n 's/ firn:[0-9]*:1:1\(:[0-9]*\)*$//p' | sort | xargs
}

owned_by()
{
    [ "$(owners)" = "$1" ]
}

api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
as "$ann" firn submit --name job --gpus 1..2 --elastic --threads 4 --grace 10 \
    --workdir "$lab/out" -- "$lab/cnn" --threads 4 --batch 16 --samples 128 \
    --judge 0 --epochs 100000 --pace 50 >"$tmp/out" 2>&1 ||
    fail "not taken: $(cat "$tmp/out")"
wait_state job running
await "it does not say that processes can join" says /jobs/job '"join"'
owned_by "$ann" || fail "squeue shows '$(owners)'"
# A job of ben's with the name that ann's further allocation will have.
name=$(timeout 240 squeue -h -u "$ann" -o %j)
(cd / && as "$ben" sbatch -Q -H -J "$name:1" -o /dev/null --wrap 'sleep 3000') ||
    fail "sbatch failed"
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no event tells of the growth" told 1
owned_by "$ann $ann $ben" || fail "squeue shows '$(owners)' after the growth"
as "$cat" firn submit --name second --gpus 1 -- sleep 3000 >/dev/null 2>&1 ||
    fail "not taken"
await "no event tells that it shrank" told 2
wait_state second running
await "squeue still shows '$(owners)'" owned_by "$ann $ben"
[ "$(field job epoch)" = 1 ] || fail "it was restarted"
as "$ann" firn cancel job >/dev/null 2>&1 || fail "not cancelled"
as "$cat" firn cancel second >/dev/null 2>&1 || fail "not cancelled"
wait_state job cancelled
down
exit 0
