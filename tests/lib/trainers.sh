# trainers.sh - what the tests of the example trainers share. Sourced.
#
# Runs are named; each has a folder of checkpoints $tmp/NAME. Two runs are
# compared with each other on this machine: no result is ever stored.
. tests/lib/e2e.sh
cnn=${FIRN%/firn}/examples/cnn
gpt=${FIRN%/firn}/examples/gpt
[ -x "$cnn" ] || skip "the examples are not built"
FIRN_IMAGES= # pictures made up: the same with and without the real ones
# Processes of one run find each other by its name and this number, and other
# tests have runs of the same names.
MASTER_PORT=$((10000 + $$ % 20000))
export FIRN_IMAGES MASTER_PORT

# start NAME P LAYOUT COMMAND...: P processes of one run, in the background.
# Their numbers are in $pids.
start()
{
    name=$1
    nprocs=$2
    layout=$3
    shift 3
    mkdir -p "$tmp/$name"
    pids=
    rank=0
    while [ "$rank" -lt "$nprocs" ]; do
        RANK=$rank WORLD_SIZE=$nprocs FIRN_JOB=$name FIRN_LAYOUT=$layout \
            "$@" --quiet 1 --dir "$tmp/$name" >>"$tmp/$name/out.$rank" 2>&1 &
        pids="$pids $!"
        rank=$((rank + 1))
    done
}

# finish STATUS: waits for all of them; each ends with that status.
finish()
{
    for pid in $pids; do
        wait "$pid"
        got=$?
        [ "$got" -eq "$1" ] || {
            cat "$tmp/$name"/out.*
            fail "run $name: a process ended with $got, not $1"
        }
    done
}

# train NAME P LAYOUT COMMAND...: to the end.
train()
{
    start "$@"
    finish 0
}

# newest NAME: its last checkpoint.
newest()
{
    ls "$tmp/$1"/*.ckpt | tail -n 1
}

# same A B, differ A B [TEXT]: the runs' last checkpoints, bit by bit; the
# first difference is reported with that text.
same()
{
    "$FIRN" train diff "$(newest "$1")" "$(newest "$2")" >"$tmp/out" ||
        fail "runs $1 and $2 differ"
}

differ()
{
    "$FIRN" train diff "$(newest "$1")" "$(newest "$2")" >"$tmp/out" &&
        fail "runs $1 and $2 are equal"
    [ $# -lt 3 ] || out_has "$3"
}
