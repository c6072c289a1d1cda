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

# libFuzzer ends one second after the one it is given; 0 would be without end.
until=$((seconds > 1 ? seconds - 1 : 1))
"$program" -max_total_time="$until" -timeout=10 -rss_limit_mb=2048 \
    -max_len=16384 -artifact_prefix="$crashes/$target-" -print_final_stats=1 \
    -close_fd_mask=1 "$kept" $seeds >"$folder/$target.log" 2>&1
rc=$?
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
