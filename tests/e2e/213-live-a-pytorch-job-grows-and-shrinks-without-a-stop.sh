#!/bin/sh
# An elastic PyTorch job grows when its neighbour ends and shrinks when another
# job comes, in one attempt: a process joins and leaves while it trains. Its events
# tell each pause, and `firn show` the last one. Its weights equal those of a run
# that was never resized. With local.spares the process that joins was started in
# advance. Skipped where PyTorch is not there.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
only local "processes join on the local engine only"
. tests/lib/torchjob.sh
# other NAME: a job that ends when it is told to.
other()
{
    printf '#!/bin/sh\nuntil [ -e "%s/%s" ]; do sleep 0.05; done\n' \
        "$tmp" "$1-ends" >"$tmp/$1"
    chmod +x "$tmp/$1"
    submit "$1" 1 "" "$tmp/$1"
}
# logged TEXT: does the log of the job have the text?
logged()
{
    "$FIRN" logs --socket "$socket" job | grep -q -e "$1"
}
# resized N: have events told of N resizes?
resized()
{
    [ "$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")" -ge "$1" ]
}

# run_job CAN OPTION...
run_job()
{
    can=$1
    shift
    rm -rf "$tmp/state" "$tmp"/*-ends "$tmp/fast"
    torch_alone "$@"
    up --gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1 \
        --set icefrog.restart=0 --set local.ahead=0 --set local.spares=1
    other first
    wait_state first running
    submit job 1..2 "elastic: {threads: 2}
checkpoint: {grace: 30, interval: 60}
freeze: {rule: off}
$can" "$torchjob" --pace 0.2 "$@"
    await "it does not say that processes can join" says /jobs/job '"join"'
    [ -z "$can" ] || await "no process waits to join" logged "waits to join"
    touch "$tmp/first-ends"
    await "no event tells of the growth" resized 1
    [ -z "$can" ] || logged "started in advance joins" ||
        fail "the process that waited did not join"
    other second
    await "no event tells of the shrinking" resized 2
    wait_state second running
    [ "$(field job epoch)" = 1 ] || fail "it was restarted: $(api GET /jobs/job)"
    "$FIRN" show --socket "$socket" job | grep -q "without a stop" ||
        fail "show has no resize: $("$FIRN" show --socket "$socket" job)"
    touch "$tmp/second-ends" "$tmp/fast"
    wait_state job succeeded
    api GET /jobs/job/logs >"$tmp/logs"
    down
    torch_same "$tmp/logs"
}
run_job ""
run_job "can: [resize, join, ahead]" --ahead
exit 0
