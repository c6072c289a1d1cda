#!/bin/sh
# Further allocations of a job on Slurm that do not last or do not come. Slurm says
# that it will end one: its workers leave, a successor is asked for and joined, in
# one attempt, and the weights equal those of an undisturbed run; so, too, when
# firnd dies between the two. The options of srun in the job file, such as those
# of a container, are given to every srun of the job. A worker that was
# to join dies: the job trains on as it was, and its events say so. Slurm refuses a
# further allocation: the job is restarted for its size, and its events say why.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0"
# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small

# Trains slowly until it is told otherwise; workers that join die if they are to.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -z "\$FIRN_JOIN_ORDER" ] || [ ! -e "$tmp/dies" ] || exit 3
[ -e "$tmp/fast" ] || set -- "\$@" --pace 400
exec "$cnn" "\$@"
END
chmod +x "$tmp/cnn"

# says_event TEXT [N]: do N events of the job have it?
says_event()
{
    [ "$("$FIRN" events --socket "$socket" -j "$job" | grep -c "$1")" -ge "${2:-1}" ]
}

# marks: Slurm's jobs for attempt 1 of the job, pending or running.
marks()
{
    timeout 240 squeue -h -t PD,R -o %j |
        sed -n "s/^firn:[0-9]*:$(field "$job" id)://p" | sort | xargs
}

has()
{
    [ "$(marks)" = "$1" ]
}

# starts JOB [ARGUMENT]...: it runs on one node of two.
starts()
{
    job=$1
    shift
    api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
    # shellcheck disable=SC2086 # words
    submit "$job" 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}
slurm: {container: images/cnn.sqsh, options: --container-name=lab}" \
        "$tmp/cnn" $small "$@"
    wait_state "$job" running
    await "$job does not say that processes can join" says "/jobs/$job" '"join"'
}

ends()
{
    api POST "/jobs/$job/cancel" "" >/dev/null || fail "not cancelled"
    wait_state "$job" cancelled
    await "Slurm still has $(marks)" has ""
}

# Commands of Slurm, of which sbatch refuses further allocations if it is to.
mkdir "$tmp/bin" "$tmp/stand"
for name in squeue scontrol scancel sinfo sacct sacctmgr srun sbatch; do
    real=$(command -v $name) && ln -s "$real" "$tmp/bin/$name"
done
real=$(command -v sbatch)
rm "$tmp/bin/sbatch"
cat >"$tmp/bin/sbatch" <<END
#!/bin/sh
! printf '%s\\n' "\$@" | grep -q '^--job-name=firn:[0-9]*:[0-9]*:[0-9]*:' ||
    [ ! -e "$tmp/refuses" ] || {
    echo "sbatch: error: Batch job submission failed: Job violates limits" >&2
    exit 1
}
exec "$real" "\$@"
END
chmod +x "$tmp/bin/sbatch"
# srun stands in for one with a plugin for containers (pyxis, enroot): it records
# its arguments, and does not know the container's options.
cat >"$tmp/stand/srun" <<END
#!/bin/sh
for word in "\$@"; do
    shift
    case \$word in
    --container-*) echo "\$word" >>"$tmp/contained" ;;
    *) set -- "\$@" "\$word" ;;
    esac
done
exec "$(command -v srun)" "\$@"
END
chmod +x "$tmp/stand/srun"
begin="--policy icefrog --set icefrog.interval=1 --set icefrog.restart=0
    --set slurm.poll=0.1 --set slurm.path=$tmp/bin"
PATH=$tmp/stand:$PATH
# shellcheck disable=SC2086 # words
up --gpus 2x1:v100@16 $begin

# Slurm will end the further allocation: what it sends before a time limit.
starts chained
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no event tells of the growth" says_event "resized without a stop"
has "1 1:1" || fail "Slurm has $(marks)"
pilot=$(timeout 240 squeue -h -t R -o '%i %j' | sed -n 's/ firn:.*:1:1:1$//p')
timeout 240 scancel --batch --signal=USR1 "$pilot" || fail "no signal"
await "no events tell of the leave and the join" \
    says_event "resized without a stop" 3
has "1 1:2" || fail "Slurm has $(marks), not the successor"
[ "$(field chained epoch)" = 1 ] || fail "it was restarted"

# Again, and firnd dies when it has asked for the successor and written the order
# to leave. The next firnd asks for no third allocation.
down
# shellcheck disable=SC2086 # words
FIRN_FAILPOINT=engine.resize.after up $begin
is chained state running || wait_state chained running
pilot=$(timeout 240 squeue -h -t R -o '%i %j' | sed -n 's/ firn:.*:1:1:2$//p')
timeout 240 scancel --batch --signal=USR1 "$pilot" || fail "no signal"
dead() { ! kill -0 "$daemon" 2>/dev/null; }
await "firnd does not reach the failpoint" dead
wait "$daemon" 2>/dev/null
daemon=
# shellcheck disable=SC2086 # words
up $begin
await "no events tell of the leave and the join" \
    says_event "resized without a stop" 5
has "1 1:3" || fail "Slurm has $(marks), not one successor"
[ "$(field chained epoch)" = 1 ] || fail "it was restarted"
[ "$(sort "$tmp/contained" | uniq -c | xargs)" = \
    "4 --container-image=images/cnn.sqsh 4 --container-name=lab" ] ||
    fail "options of containers: $(cat "$tmp/contained")"
touch "$tmp/fast" # the rest is trained by another attempt
api POST /jobs/chained/hold "" >/dev/null || fail "not held"
wait_state chained pending
api POST /jobs/chained/release "" >/dev/null || fail "not released"
wait_state chained succeeded
mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
same_weights whole job
rm "$tmp/fast"

# A worker that was to join dies.
touch "$tmp/dies"
starts joined --epochs "$endless"
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no event tells that it trains on" says_event "trains on as it was"
is joined state running || fail "it is $value"
[ "$(field joined epoch)" = 1 ] || fail "it was restarted"
await "Slurm still has the allocation: $(marks)" has 1
ends
rm "$tmp/dies"

# Slurm refuses.
touch "$tmp/refuses"
starts refused --epochs "$endless"
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no event tells of the refusal" says_event "violates limits"
wait_field refused epoch 2
wait_state refused running
ends
down
exit 0
