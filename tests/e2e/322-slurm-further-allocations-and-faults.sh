#!/bin/sh
# firnd dies when it has asked Slurm for a further allocation: its successor finds
# the allocation by its tag, lets the worker join, and asks for no second one. A
# person cancels that allocation: the job goes on from a checkpoint. In soak firnd
# dies at each point of a growth, and the controller is killed after one.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
start="--gpus 2x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set slurm.poll=0.1"

told()
{
    "$FIRN" events --socket "$socket" -j job | grep -q "resized without a stop"
}

# marks: the tags of Slurm's jobs for the attempt, pending or running.
marks()
{
    timeout 240 squeue -h -t PD,R -o %j | sed -n 's/^firn:[0-9]*:1://p' | sort |
        xargs
}

has()
{
    [ "$(marks)" = "$1" ]
}

has_died()
{
    ! kill -0 "$daemon" 2>/dev/null
}

# grow POINT: a job grows onto a second node; firnd kills itself at POINT.
grow()
{
    rm -rf "$tmp/state"
    # shellcheck disable=SC2086 # words
    FIRN_FAILPOINT=$1 up $start
    api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
    submit job 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}" "$cnn" --threads 4 --batch 16 --samples 128 --judge 0 \
        --epochs $endless --pace 50
    wait_state job running
    await "it does not say that processes can join" says /jobs/job '"join"'
    api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
    if [ -n "$1" ]; then
        await "firnd lives on behind $1" has_died
        wait "$daemon"
        daemon=
        # shellcheck disable=SC2086 # words
        up $start
    fi
    await "$1: no event tells of the growth" told
    [ "$(field job epoch)" = 1 ] || fail "$1: it was restarted to grow"
    case $(marks) in
    "1 1:1" | "1 1:2") ;; # one further allocation; the first may have failed
    *) fail "$1: Slurm has $(marks)" ;;
    esac
}

# end: the job is cancelled, and nothing of it stays in Slurm.
end()
{
    api POST /jobs/job/cancel "" >/dev/null || fail "not cancelled"
    wait_state job cancelled
    await "Slurm still has $(marks)" has ""
    down
}

crash_controller()
{
    tools/slurm-bed kill ctld --dir "$bed" && tools/slurm-bed start ctld \
        --dir "$bed" || fail "no controller"
}

grow engine.pilot.after
second=$(timeout 240 squeue -h -t R -o '%i %j' | sed -n 's/ firn:.*:1:1:.*//p')
timeout 240 scancel "$second"
wait_field job epoch 2
wait_state job running
says /jobs/job '"end": "checkpoint"' || fail "no checkpoint: $(api GET /jobs/job)"
end
[ -n "${FIRN_SOAK:-}" ] || exit 0
for point in engine.pilot.list.after engine.pilot.before \
    engine.resize.launch.after engine.resize.after engine.resize.signal.after; do
    grow $point
    end
done
# A controller that forgets its last seconds forgets young allocations: the job
# goes on, in this attempt or the next one, and nothing of it stays in the end.
grow ""
crash_controller
wait_state job running
end
exit 0
