#!/bin/sh
# A running trainer changes its batch at the end of an epoch, in the process that
# it has: the gradients of cifar10 become noisier after two thirds of the
# training, so that pollux orders a larger batch. The job has one attempt, and its
# weights are those of a run that takes the same decisions from a log.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainer takes minutes under a checker"
up --gpus 1x1:t4@16 --policy pollux
flags="--threads 2 --samples 260 --batch 32 --judge 0 --epochs 24"
# shellcheck disable=SC2086 # words
submit scaled 1 "app: cifar10
batch: 32
duration: 600
checkpoint: {grace: 10}
batch-rule: linear
batch-max: 4096
elastic: {threads: 2}" "$cnn" $flags
wait_reported scaled batch 128
wait_state scaled succeeded
is scaled attempt 1 || fail "it was started again: $(api GET /jobs/scaled)"
# 8 steps an epoch with batch 32, 2 with 128, 1 with more than 130: in fewer than
# 48 steps, some of the 24 epochs had more than 128. How much more, and whether the
# last epoch still has it, goes by step times, which a busy machine changes.
step=$(reported scaled step)
{ [ "$step" -gt 24 ] && [ "$step" -lt 48 ]; } || fail "$step steps"
down
weights_of 1 scaled
# shellcheck disable=SC2086 # words
train again 1 "" "$cnn" $flags --replay "$(newest scaled)"
same_weights again scaled
exit 0
