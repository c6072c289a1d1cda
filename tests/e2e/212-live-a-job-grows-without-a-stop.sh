#!/bin/sh
# An elastic job grows when its neighbour ends, in one attempt: a process joins
# while it trains, also when firnd is killed in the middle of the resize. Its
# events tell the pause. If the supervisor is killed, it goes on from its last
# checkpoint (in soak). Its last weights equal those of an undisturbed run.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
start="--gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0"
elastic="elastic: {threads: 4}
checkpoint: {grace: 10, interval: 1}
retry: {max: 3}
freeze: {rule: off}"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0"

# Trains slowly until it is told otherwise. A process that joins waits to be let
# in.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 200
while [ -n "\${FIRN_JOIN_ORDER:-}" ] && ! [ -e "$tmp/in" ]; do sleep 0.02; done
exec "$cnn" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.02; done
END
chmod +x "$tmp/cnn" "$tmp/other"
# told: has the resize been told of?
told()
{
    "$FIRN" events --socket "$socket" -j job | grep -q "resized without a stop"
}
# has_died: firnd is not there.
has_died()
{
    ! kill -0 "$daemon" 2>/dev/null
}
# again: does the job run in a second attempt?
again()
{
    [ "$(field job epoch)" -ge 2 ] && is job state running
}

# grow POINT: a whole life of a job that grows; firnd, or the supervisor, kills
# itself at POINT.
grow()
{
    rm -rf "$tmp/state" "$tmp/fast" "$tmp/in" "$tmp/gone" "$tmp/job"
    # shellcheck disable=SC2086 # words
    FIRN_FAILPOINT=$1 up $start
    submit first 1 "" "$tmp/other"
    wait_state first running
    # shellcheck disable=SC2086 # words
    submit job 1..2 "$elastic" "$tmp/cnn" $small
    wait_state job running
    await "it does not say that processes can join" says /jobs/job '"join"'
    touch "$tmp/gone" # room for two
    case $1 in
    engine.*)
        await "firnd lives on behind $1" has_died
        wait "$daemon"
        daemon=
        # shellcheck disable=SC2086 # words
        up $start
        touch "$tmp/in"
        await "no event tells of the growth" told
        [ "$(field job epoch)" = 1 ] || fail "$1: it was restarted to grow"
        ;;
    *)
        touch "$tmp/in"
        await "$1: no second attempt" again
        ;;
    esac
    touch "$tmp/fast" # the rest is trained by another attempt
    api POST /jobs/job/hold "" >/dev/null || fail "not held"
    wait_state job pending
    api POST /jobs/job/release "" >/dev/null || fail "not released"
    wait_state job succeeded
    mkdir "$tmp/job" && cp "$tmp"/state/jobs/2/ckpt/*.ckpt "$tmp/job/"
    "$FIRN" train diff --only weights,optimizer "$(newest whole)" \
        "$(newest job)" >"$tmp/out" ||
        fail "$1: the weights or the optimiser differ"
    down
}

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
points=engine.resize.after
[ -z "${FIRN_SOAK:-}" ] || points="engine.resize.launch.after \
    engine.resize.after engine.resize.signal.after shepherd.joiners.after \
    shepherd.resized.before shepherd.resized.after"
for point in $points; do
    grow "$point"
done
exit 0
