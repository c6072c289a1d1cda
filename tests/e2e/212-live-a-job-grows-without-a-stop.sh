#!/bin/sh
# An elastic job grows when its neighbour ends, in one attempt: a process joins
# while it trains, also when firnd is killed before that process is ready. Its
# last weights equal those of an undisturbed run; its events tell the pause.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
start="--gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0"
# shellcheck disable=SC2086 # words
up $start
elastic="elastic: {threads: 4}
checkpoint: {grace: 10}
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

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
submit first 1 "" "$tmp/other"
wait_state first running
# shellcheck disable=SC2086 # words
submit job 1..2 "$elastic" "$tmp/cnn" $small
wait_state job running
await 'it does not say that processes can join' says /jobs/job '"join"'
touch "$tmp/gone" # room for two
wait_field job gpus 'n0\[0-1\]'
await "no order to resize" test -e "$tmp/state/control/2/epoch-1/resize"
down KILL
# shellcheck disable=SC2086 # words
up $start
touch "$tmp/in"
await "no event tells of the growth" told
[ "$(field job epoch)" = 1 ] || fail "it was restarted to grow"
touch "$tmp/fast" # the rest is trained by another attempt
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job succeeded
[ "$(field job epoch)" = 2 ] || fail "$(field job epoch) attempts, not two"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/2/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"
down
exit 0
