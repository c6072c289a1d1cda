#!/bin/sh
# An elastic job grows and shrinks by its user's bounds, by checkpoints (its file
# declines joins: 215), is held and released; its last weights equal those of an
# undisturbed run.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x4:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
elastic="elastic: {threads: 4}
checkpoint: {grace: 10}
can: [resize]
freeze: {rule: off}"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0"

# Trains slowly, a checkpoint a step, until it is told otherwise.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 500 --every 1
exec "$cnn" "\$@"
END
chmod +x "$tmp/cnn"

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small

# The user's bounds: one GPU, four, two.
# shellcheck disable=SC2086 # words
submit job 1..1 "$elastic" "$tmp/cnn" $small
wait_field job gpus 'n0\[?\]'
await "it takes no step" saved 1
wait_state job running
api PATCH /jobs/job '{"gpus": 4}' >/dev/null ||
    fail "no new bounds"
wait_field job gpus 'n0\[0-3\]'
saved 1 # the last that the start before has left
before=$step
await "it goes no further than step $before" saved 1 "$before"
wait_state job running
api PATCH /jobs/job '{"gpus": 2}' >/dev/null ||
    fail "no new bounds"
wait_field job gpus 'n0\[0-1\]'
saved 1 # the last that the start before has left
before=$step
await "it goes no further than step $before" saved 1 "$before"
wait_state job running
# Held, it leaves by a checkpoint; released, it goes on.
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
[ "$(field job reason)" = held ] || fail "not because it is held"
touch "$tmp/fast"
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job succeeded
[ "$(field job epoch)" -ge 4 ] || fail "only $(field job epoch) starts"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
# One that reports measures its gradients too; the training is the same.
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"
down
exit 0
