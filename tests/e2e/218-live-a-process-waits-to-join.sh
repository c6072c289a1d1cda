#!/bin/sh
# With local.spares=2 two processes of an elastic job wait, without a GPU, for the
# job to get more of them: when a neighbour ends one joins, no other process is
# started for it, and one more waits. The last weights equal those of an
# undisturbed run. A process that is killed while it waits harms nothing: the
# growth starts one as without the option. None outlives its job.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
elastic="elastic: {threads: 4}
checkpoint: {grace: 10, interval: 1}
freeze: {rule: off}
can: [resize, join, ahead]"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0 --ahead 1"

# Trains slowly until it is told otherwise. Lists the processes that are started in
# advance, and those that join without that.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 200
[ -z "\${FIRN_GATE:-}" ] || echo \$\$ >>"$tmp/waits"
[ -z "\${FIRN_JOIN_ORDER:-}" ] || echo \$\$ >>"$tmp/cold"
exec "$cnn" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/\$1" ]; do sleep 0.02; done
END
chmod +x "$tmp/cnn" "$tmp/other"
# logged JOB TEXT N: does the log of the job have the text N times?
logged()
{
    [ "$("$FIRN" logs --socket "$socket" "$1" | grep -c -e "$2")" -ge "$3" ]
}
# resized JOB: was the job resized?
resized()
{
    "$FIRN" events --socket "$socket" -j "$1" | grep -q "resized without a stop"
}
# ended: have all processes ended that were started in advance?
ended()
{
    while read -r pid; do
        ! kill -0 "$pid" 2>/dev/null || return 1
    done <"$tmp/waits"
}

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
up --gpus 1x4:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set local.ahead=0 --set local.spares=2
submit first 1 "" "$tmp/other" one
submit second 2 "" "$tmp/other" two
wait_state second running
# shellcheck disable=SC2086 # words
submit job 1..4 "$elastic" "$tmp/cnn" $small
await "no two processes wait to join" logged job "waits to join" 2
touch "$tmp/one"
await "the job does not grow" resized job
logged job "started in advance joins" 1 || fail "the log does not tell of it"
await "no third process waits to join" logged job "waits to join" 3
touch "$tmp/two"
[ ! -e "$tmp/cold" ] || fail "a process was started although one waited"
[ "$(field job epoch)" = 1 ] || fail "the job was restarted"
touch "$tmp/fast" # the rest is trained by another attempt
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job succeeded
mkdir "$tmp/job" && cp "$tmp"/state/jobs/3/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"

rm "$tmp/fast"
submit third 3 "" "$tmp/other" three
wait_state third running
# shellcheck disable=SC2086 # words
submit lost 1..2 "$elastic" "$tmp/cnn" $small
await "no process waits to join" logged lost "waits to join" 1
kill -9 "$(tail -n 1 "$tmp/waits")" || fail "no process waits"
await "nothing tells of the loss" logged lost "before it was needed" 1
touch "$tmp/three"
await "the job does not grow without it" resized lost
[ -e "$tmp/cold" ] || fail "no process was started"
api POST /jobs/lost/cancel "" >/dev/null || fail "not cancelled"
wait_state lost cancelled
ended || fail "a process that was started in advance outlives its job"
exit 0
