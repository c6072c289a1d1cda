#!/bin/sh
# Processes whose kernels sum in different orders (kinds of GPUs): other bits
# for another placement under D1, the same under D2, which is one order for
# all. And frozen layers: decided by measured times, so no two runs need agree,
# but a run that takes the logged decisions has the same weights.
. tests/lib/trainers.sh
small="--threads 4 --epochs 1 --samples 128 --judge 0"

# mixed NAME LAYOUT ORDER0 ORDER1: two processes, each with its order.
mixed()
{
    mkdir -p "$tmp/$1"
    name=$1
    pids=
    for rank in 0 1; do
        [ "$rank" -eq 0 ] && order=$3 || order=$4
        RANK=$rank WORLD_SIZE=2 FIRN_JOB=$1 FIRN_LAYOUT=$2 "$cnn" $small \
            --order "$order" --quiet 1 --dir "$tmp/$1" \
            >>"$tmp/$1/out.$rank" 2>&1 &
        pids="$pids $!"
    done
    finish 0
}
mixed d1 0,0,1,1 four eight
mixed d1moved 0,1,1,1 four eight
mixed d2 0,0,1,1 sequential sequential
mixed d2moved 0,1,1,1 sequential sequential
differ d1 d1moved "first difference: 'weights'"
same d2 d2moved

# replayed NAME RULE: a run by that rule, and one on other processes that takes
# its decisions.
replayed()
{
    train "$1" 2 "" "$cnn" $small --epochs 5 --freeze "$2"
    train "$1-again" 3 "" "$cnn" $small --epochs 5 --freeze "$2" \
        --replay "$(newest "$1")"
    "$FIRN" train diff --only weights "$(newest "$1")" \
        "$(newest "$1-again")" >"$tmp/out" ||
        fail "a replay of the decisions of '$2' has other weights"
    "$FIRN" train show "$(newest "$1")" >"$tmp/out"
    out_has train/decisions
}

# How much the penalty's rule freezes goes by measured times; FreezeOut's
# schedule freezes in any case.
replayed penalty penalty
replayed freezeout freezeout
grep -q "[1-9] layers frozen" "$tmp"/freezeout/out.0 || fail "nothing was frozen"
train thawed 2 "" "$cnn" $small --epochs 5
differ freezeout thawed "weights  "
