#!/bin/sh
# spares.sh - how long a growth without a stop takes to be ready, with processes
# that wait to join and without.
#
#     bench/gpu/spares.sh BIN OUT [MODEL...]
#
# BIN has firn, firnd and libfirn_train.so. An elastic job (spares_job.py) grows from
# one process to two when its neighbour ends, and shrinks when the next one comes,
# ROUNDS times (3), with local.spares 0 and 1 in turns. Both processes are on one
# GPU, which is declared as two. Writes OUT/spares.csv: a row for each resize, with the
# seconds until the new process was ready and the pause. Needs Python 3 and PyTorch;
# with DEVICE=cpu TINY=1 it is a smoke test.
set -u
cd "$(dirname "$0")/../.." || exit 1
. bench/gpu/firnd.sh
bin=$(cd "${1:?the folder of firn and firnd}" && pwd)
out=$(cd "${2:?the folder for spares.csv}" && pwd)
shift 2
[ $# -gt 0 ] || set -- resnet50 bert-base gpt2-small
device=${DEVICE:-cuda}
tiny=${TINY:+--tiny}
python=${PYTHON:-python3}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-spares.XXXXXX")
export FIRN_SOCKET="$tmp/firn.sock"
export PYTHONPATH="$PWD/python" FIRN_TRAIN_LIB="$bin/libfirn_train.so"
daemon=
trap '"$bin/firn" cancel --force job >/dev/null 2>&1; kill "$daemon" 2>/dev/null
    rm -rf "$tmp"' EXIT

# Ends when it is told to, or its folder is gone.
cat >"$tmp/other" <<'END'
#!/bin/sh
until [ -e "$1" ] || ! [ -d "${1%/*}" ]; do sleep 0.1; done
END
chmod +x "$tmp/other"

# await SECONDS COMMAND...: until it succeeds
await()
{
    left=$(($1 * 10))
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "in vain: $*" >&2; "$bin/firn" logs job >&2; exit 1; }
        sleep 0.1
    done
}
resized()
{
    [ "$("$bin/firn" events -j job | grep -c 'resized without a stop')" -ge "$1" ]
}
waits()
{
    [ "$("$bin/firn" logs job | grep -c 'waits to join')" -ge "$1" ]
}
reports()
{
    [ "$("$bin/firn" show job -o json | grep -c '"step":')" -ge 1 ]
}

# one SPARES MODEL
one()
{
    up --policy icefrog --set icefrog.interval=1 --set icefrog.restart=0 \
        --set local.ahead=0 --set "local.spares=$1" --gpus 1x2:h200@70
    "$bin/firn" submit --name other-0 --gpus 1 -- "$tmp/other" "$tmp/end-0" >/dev/null
    # shellcheck disable=SC2086 # words
    "$bin/firn" submit --name job --gpus 1..2 --elastic --threads 2 \
        -e FIRN_TRAIN_LIB -e PYTHONPATH --can resize,join,ahead -- "$python" \
        "$PWD/bench/gpu/spares_job.py" --device "$device" $tiny --model "$2" >/dev/null
    await 120 reports
    round=0
    while [ "$round" -lt "${ROUNDS:-3}" ]; do
        [ "$1" -eq 0 ] || await 120 waits $((round + 1))
        touch "$tmp/end-$round"
        await 120 resized $((2 * round + 1))
        round=$((round + 1))
        "$bin/firn" submit --name "other-$round" --gpus 1 -- "$tmp/other" \
            "$tmp/end-$round" >/dev/null
        await 120 resized $((2 * round))
    done
    "$bin/firn" events -j job | sed -n \
        's/.*ready in \([^ ]*\) s, paused for \([^ ]*\) s.*/\1,\2/p' |
        awk -v s="$1" -v m="$2" '{ print m "," s "," (NR % 2 ? "1,2" : "2,1") "," $0 }' |
        tee -a "$out/spares.csv"
    "$bin/firn" cancel --force job "other-$round" >/dev/null
    rm -f "$tmp"/end-*
    down
}

{
    echo "# command: bench/gpu/spares.sh, on $(date +%F), $device"
    echo "# seconds; two processes share one GPU; sums go through host memory"
    echo "model,spares,from,to,ready_s,pause_s"
} >"$out/spares.csv"
for model; do
    one 0 "$model"
    one 1 "$model"
done
