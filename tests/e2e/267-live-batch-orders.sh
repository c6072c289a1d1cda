#!/bin/sh
# pollux orders the batch that suits the GPUs of a job. The trainer takes it at
# the end of an epoch with the learning rate of the job's rule, and reports it.
# The weights are those of a run that takes the same decisions from a log. A job
# without a rule keeps its batch; under a policy that tunes none the ordered
# batch is the submitted one.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x2:t4@16 --policy pollux
job="app: imagenet
batch: 64
duration: 600
checkpoint: {grace: 10}
elastic: {threads: 2}"
small="--threads 2 --samples 400 --batch 64 --judge 0"

# shellcheck disable=SC2086 # words
submit scaled 1 "$job
batch-rule: linear
batch-max: 256" "$cnn" $small --epochs 2
# shellcheck disable=SC2086 # words
submit fixed 1 "$job" "$cnn" $small --epochs 2
wait_state scaled succeeded
wait_state fixed succeeded
[ "$(reported scaled batch)" = 200 ] || fail "scaled: $(api GET /jobs/scaled)"
[ "$(reported fixed batch)" = 64 ] || fail "fixed: $(api GET /jobs/fixed)"
says /jobs/scaled '"batch", ' || fail "scaled: $(api GET /jobs/scaled)"
[ "$(reported scaled step)" = 4 ] || fail "scaled: $(reported scaled step) steps"
[ "$(reported fixed step)" = 12 ] || fail "fixed: $(reported fixed step) steps"
down
weights_of 1 scaled
weights_of 2 fixed

up --gpus 1x2:t4@16 --policy fifo
# shellcheck disable=SC2086 # words
submit plain 1 "$job
batch-rule: linear
batch-max: 256" "$cnn" $small --epochs 2
wait_state plain succeeded
[ "$(reported plain batch)" = 64 ] || fail "plain: $(api GET /jobs/plain)"
down
weights_of 3 plain

# shellcheck disable=SC2086 # words
train again 1 "" "$cnn" $small --epochs 2 --replay "$(newest scaled)"
same_weights again scaled
differ_weights fixed scaled
same_weights fixed plain
exit 0
