#!/bin/sh
# The processes of the job that starts next are started while another job still
# has the GPU: they wait for it, without an attempt of their own. They end if the
# job is cancelled or firnd is killed, and nothing is lost. When the GPU is free
# they are the job's attempt, its first step comes sooner, its weights are those
# of a start without preparation, and the events tell both times. firnd is killed
# behind the word that lets them through (in soak at every point), and the job has
# one attempt at a time all the same.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes are prepared on the local engine only"
start="--gpus 1x1:v100@16 --policy fifo"
small="--threads 2 --batch 16 --epochs 2 --samples 64 --judge 0 --ahead 1"
able="app: waits
checkpoint: {grace: 10, interval: 60}"

# Half a second of libraries, then a trainer that waits for its GPU.
cat >"$tmp/cnn" <<END
#!/bin/sh
sleep 0.5
exec "$cnn" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.02; done
END
chmod +x "$tmp/cnn" "$tmp/other"
# told JOB TEXT: has an event of the job this text?
told()
{
    "$FIRN" events --socket "$socket" -j "$1" | grep -q -e "$2"
}
# prepared: does a supervisor of this test wait for an attempt?
prepared()
{
    grep -lsF -e "--shepherd-ahead" /proc/[0-9]*/cmdline |
        xargs -r grep -lsF -e "${tmp##*/}/" | grep -q .
}
unprepared()
{
    ! prepared
}
has_died()
{
    ! kill -0 "$daemon" 2>/dev/null
}
# hold_only NAME: a job that has the GPU, and one behind it that can wait for it.
hold_only()
{
    rm -f "$tmp/gone"
    submit "before-$1" 1 "" "$tmp/other"
    wait_state "before-$1" running
    # shellcheck disable=SC2086 # words
    submit "$1" 1 "$able" "$tmp/cnn" $small
}
# hold NAME: the same, and its processes wait.
hold()
{
    hold_only "$1"
    await "no process of $1 is prepared" told "$1" "and wait for its GPUs"
    [ "$(field "$1" state)" = pending ] || fail "$1 has left the queue"
    [ "$(field "$1" epoch)" = 0 ] || fail "a prepared job has an attempt"
    prepared || fail "no supervisor waits for an attempt"
}

# shellcheck disable=SC2086 # words
up $start
# shellcheck disable=SC2086 # words
submit cold 1 "$able" "$tmp/cnn" $small # firn learns that its trainer waits
wait_state cold succeeded
told cold prepared && fail "a job is prepared before its trainer was seen to wait"
weights_of 1 cold

hold cancelled
api POST /jobs/cancelled/cancel "" >/dev/null || fail "not cancelled"
wait_state cancelled cancelled
await "the processes of a cancelled job wait on" unprepared

touch "$tmp/gone"
wait_state before-cancelled succeeded
hold warm # job 5
down KILL
await "prepared processes outlive firnd" unprepared
# shellcheck disable=SC2086 # words
up $start
await "the next firnd prepares nothing" prepared
touch "$tmp/gone"
wait_state warm succeeded
[ "$(field warm epoch)" = 1 ] || fail "a prepared job was started twice"
told warm "its first step came .* without preparation" ||
    fail "no event tells what the preparation has saved"
weights_of 5 warm
same_weights cold warm
says /metrics firn_startup_prepared_seconds_count ||
    fail "no metric tells of the prepared start"
n=5
points="engine.go.after shepherd.go.after"
[ -z "${FIRN_SOAK:-}" ] || points="engine.ahead.before engine.ahead.after \
    engine.go.before engine.go.after engine.number.after engine.launch.after \
    engine.fence.after shepherd.park.before shepherd.park.after shepherd.go.after"
for point in $points; do
    down
    # The kill comes at the job's start, not at that of the one before it.
    case $point in
        engine.[nlf]*) at=$point:2 ;;
        *) at=$point ;;
    esac
    # shellcheck disable=SC2086 # words
    FIRN_FAILPOINT=$at up $start
    case $point in
        # The kill comes while the processes are started: firnd's, or their own.
        engine.ahead.* | shepherd.park.*) hold_only "$point" ;;
        *) hold "$point" ;;
    esac
    n=$((n + 2))
    case $point in
        engine.ahead.*) ;;
        shepherd.park.*) # and firnd starts the job as any other
            await "the processes of $point live on" unprepared
            touch "$tmp/gone"
            ;;
        *) touch "$tmp/gone" ;;
    esac
    case $point in
        engine.*)
            await "firnd lives on behind $point" has_died
            wait "$daemon"
            daemon=
            touch "$tmp/gone"
            # shellcheck disable=SC2086 # words
            up $start
            ;;
    esac
    if [ "$point" = shepherd.go.after ]; then
        # Each supervisor that goes is killed: the job is given up, and its GPU
        # and its processes with it.
        wait_state "$point" lost
        await "processes of a lost job are left" unprepared
        submit after 1 "" true
        wait_state after succeeded
        n=$((n + 1))
        continue
    fi
    wait_state "$point" succeeded
    weights_of "$n" "$point"
    same_weights cold "$point"
done
exit 0
