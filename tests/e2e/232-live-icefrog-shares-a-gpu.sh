#!/bin/sh
# Under icefrog, with the paper's options, two jobs share the one GPU at the next
# round when their utilisation and memory are known and add up to at most all of
# it: both are of an application that has a profile. A job whose application
# uses nine tenths of the GPU shares with neither and waits.
. tests/lib/firnd.sh
light="share: allowed
app: mobilenetv2-c
batch: 128
duration: 6000
checkpoint: {grace: 10}"
heavy="share: allowed
app: bert-base
batch: 128
duration: 6000
checkpoint: {grace: 10}"
work="--epochs $endless --samples 256 --judge 0 --pace 250"

# states: "one running two pending", of all jobs at one moment.
states()
{
    api GET /jobs | tr '{' '\n' |
        sed -n 's/.*"name": "\([a-z]*\)".*"state": "\([a-z]*\)".*/\1 \2/p' |
        xargs
}

# share: do one and two run at the same moment? A third never runs beside one of
# them. On a loaded machine icefrog may part jobs whose speed it has measured, and
# bring them together again: so the test waits for the moment.
share()
{
    now=$(states)
    case $now in
    *'one running'*'busy running'* | *'busy running'*'two running'*)
        fail "a third is on the GPU: $now" ;;
    *'one running'*'two running'*) return 0 ;;
    *) return 1 ;;
    esac
}

up --gpus 1x1:h200@141 --policy icefrog --set icefrog.interval=1
# shellcheck disable=SC2086 # words
submit one 1 "$light" "$cnn" $work
wait_state one running
# shellcheck disable=SC2086 # words
submit busy 1 "$heavy" "$cnn" $work
# shellcheck disable=SC2086 # words
submit two 1 "$light" "$cnn" $work
await "one and two do not share" share
api POST /jobs/one/cancel "" >/dev/null
api POST /jobs/two/cancel "" >/dev/null
wait_state busy running
api POST /jobs/busy/cancel "" >/dev/null
down

# With idle=wait a job of 6000 s does not wait for one of 6000 s either.
rm -rf "$tmp/state"
up --gpus 1x1:h200@141 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.idle=wait
# shellcheck disable=SC2086 # words
submit one 1 "$light" "$cnn" $work
# shellcheck disable=SC2086 # words
submit two 1 "$light" "$cnn" $work
await "one and two do not share" share
api POST /jobs/one/cancel "" >/dev/null
api POST /jobs/two/cancel "" >/dev/null
wait_state two cancelled
down
exit 0
