#!/bin/sh
# run_fuzzer.sh - runs one libFuzzer target for SECONDS.
#
#   run_fuzzer.sh SECONDS PROGRAM
#
# Starts from what earlier runs kept beside the program, from
# tests/fuzz/corpus/<target>/ and, for readers of traces, from
# tests/fuzz/corpus/fuzz_trace/ and tests/trace/fixtures/. An input that
# crashes, hangs or leaks is kept under crashes/ beside the program, and its
# name is printed with the command that repeats it.

seconds=$1 program=$2
target=$(basename "$program")
folder=$(dirname "$program")
kept=$folder/corpus/$target
crashes=$folder/crashes
mkdir -p "$kept" "$crashes"

seeds=
for dir in "tests/fuzz/corpus/$target" \
    $(case $target in fuzz_trace_*)
        echo tests/fuzz/corpus/fuzz_trace tests/trace/fixtures ;;
    esac); do
    [ -d "$dir" ] && seeds="$seeds $dir"
done

# What an interrupted target leaves in its temporary folder goes with it.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/firn-fuzzer.XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

# libFuzzer ends one second after the one it is given, and 0 would be without
# end: a single second is ended by timeout(1). It writes its numbers in the handler
# of that signal, and one that came within malloc() may wait for a lock there
# for good: it is killed then, and has said all.
if [ "$seconds" -gt 1 ]; then
    limit= until=$((seconds - 1))
else
    limit="timeout --signal=INT --kill-after=5 1" until=10
fi
$limit "$program" -max_total_time="$until" -timeout=10 -rss_limit_mb=2048 \
    -max_len=16384 -artifact_prefix="$crashes/$target-" -print_final_stats=1 \
    -close_fd_mask=1 "$kept" $seeds >"$folder/$target.log" 2>&1
rc=$?
[ -z "$limit" ] || [ $rc -ne 124 ] || rc=0 # timeout(1) ended it
[ -z "$limit" ] || [ $rc -ne 137 ] ||
    ! grep -q '^stat::number_of_executed_units' "$folder/$target.log" || rc=0
if [ $rc -ne 0 ]; then
    tail -n 60 "$folder/$target.log"
    for input in "$crashes/$target"-*; do
        [ -f "$input" ] && echo "repeat with: $program $input"
    done
else
    sed -n 's/^stat::number_of_executed_units: */inputs tried: /p' \
        "$folder/$target.log"
fi
# libFuzzer ends with 77 on a crash, which would count as skipped here.
[ $rc -eq 0 ]
