#!/bin/sh
# run_steady.sh - does a command succeed N times in a row on a busy machine?
#
# usage: tools/run_steady.sh [-n N] [-b LOOPS] COMMAND...
#
# Runs the command N times (default 10) beside LOOPS processes that only compute
# (default 4), and prints a line for each run: its number, "green" or "red", its
# seconds and the load averages of the last 1, 5 and 15 minutes at its end. The
# output of the last run is in $BUILD/steady.out (BUILD: build). It stops at the
# first run that fails; the last line is "N of N runs in a row are green", and the
# exit status is 1 if there was a red one.
#
# `make steady` repeats the tests with processes and timers. The whole check:
# CHECK_STRICT=1 tools/run_steady.sh ./check

runs=10 loops=4
while getopts n:b: opt; do
    case $opt in
    n) runs=$OPTARG ;;
    b) loops=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
    echo "run_steady.sh: no command to repeat" >&2
    exit 2
fi
out=${BUILD:-build}/steady.out
mkdir -p "${out%/*}" || exit 2

busy=
trap '[ -z "$busy" ] || { kill $busy; wait $busy; } 2>/dev/null' EXIT
trap 'exit 130' INT TERM
while [ "$loops" -gt 0 ]; do
    (while :; do :; done) &
    busy="$busy $!"
    loops=$((loops - 1))
done

green=0
while [ "$green" -lt "$runs" ]; do
    since=$(date +%s) word=green
    "$@" >"$out" 2>&1 </dev/null || word=red
    printf 'run %d: %s, %d s, load %s\n' $((green + 1)) $word \
        $(($(date +%s) - since)) "$(cut -d ' ' -f 1-3 /proc/loadavg)"
    [ $word = green ] || break
    green=$((green + 1))
done
echo "$green of $runs runs in a row are green"
[ "$green" -eq "$runs" ]
