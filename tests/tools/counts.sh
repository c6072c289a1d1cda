#!/bin/sh
# counts.sh - the runner of tests counts what happened, and its last line and
# exit status say so. TAP on stdout.

run=$(cd "$(dirname "$0")/../../tools" && pwd)/run_tests.sh
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-counts.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
unset TALLY CHECK_STRICT
n=0

# script NAME TEXT: an executable shell script.
script()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"
    chmod +x "$tmp/$1"
}

# expect STATUS LINE NAME TEST...: the runner's status and last line.
expect()
{
    status=$1 line=$2 name=$3
    shift 3
    n=$((n + 1))
    "$run" -j 2 "$@" >"$tmp/said" 2>&1
    rc=$?
    last=$(tail -n 1 "$tmp/said")
    if [ $rc -eq "$status" ] && [ "$last" = "$line" ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        echo "# status $rc, last line: $last"
    fi
}

script good 'exit 0'
script bad 'echo its words; exit 3'
script skipped 'exit 77'
script three 'printf "1..3\nok 1 - a\nok 2 - b\nnot ok 3 # SKIP c\n"'
script mixed 'printf "1..2\nok 1 - a\nnot ok 2 - b\n"; exit 1'
script cut 'printf "1..5\nok 1 - a\n"; kill -ABRT $$'
script leaky 'printf "1..1\nok 1 - a\n"; exit 23'
script slow 'sleep 30'
script tidy 'f=$(mktemp) && rm "$f"'
script untidy 'mktemp'
script untidy_and_bad 'mktemp; exit 3'
script second 'sleep 1.1'
script waits 'until [ -e "$0.made" ]; do sleep 0.05; done'
script makes ': >"${0%makes}waits.made"'
script heeds 'sh -c "kill -INT \$\$"; [ $? -eq 130 ]'
script alone '[ -z "${RANK:-}${SLURM_JOB_ID:-}${FIRN_URL:-}${FIRN_MATE_JOB:-}" ]'
script asked '[ "${FIRN_DATA:-}${FIRN_QUICK:-}${FIRND_ENGINE:-}" = abc ]'
script short '[ ${#TMPDIR} -le 47 ] && case $TMPDIR in *" "*) exit 1 ;; esac'

expect 0 "1 passed, 0 failed, 0 skipped" a_script_is_one_case "$tmp/good"
expect 1 "1 passed, 1 failed, 0 skipped" a_status_is_a_failure \
    "$tmp/good" "$tmp/bad"
expect 0 "0 passed, 0 failed, 1 skipped" status_77_is_a_skip "$tmp/skipped"
expect 0 "2 passed, 0 failed, 1 skipped" tap_cases_are_counted "$tmp/three"
expect 1 "1 passed, 1 failed, 0 skipped" a_failed_case_fails_the_run \
    "$tmp/mixed"
expect 1 "1 passed, 4 failed, 0 skipped" cases_not_reached_have_failed \
    "$tmp/cut"
expect 1 "1 passed, 1 failed, 0 skipped" a_bad_end_after_good_cases_fails \
    "$tmp/leaky"
expect 1 "0 passed, 0 failed, 0 skipped" nothing_run_is_a_failure
expect 1 "0 passed, 1 failed, 0 skipped" a_missing_test_is_a_failure \
    "$tmp/none"
expect 1 "0 passed, 1 failed, 0 skipped" a_test_that_hangs_is_ended \
    -t 1 "$tmp/slow"
expect 1 "0 passed, 1 failed, 0 skipped" what_failed_is_shown "$tmp/bad"
n=$((n + 1))
if grep -q 'its words' "$tmp/said"; then
    echo "ok $n - the_output_of_a_failed_test_is_printed"
else
    echo "not ok $n - the_output_of_a_failed_test_is_printed"
fi
expect 1 "2 passed, 1 failed, 0 skipped" a_file_left_in_tmpdir_is_a_failure \
    "$tmp/tidy" "$tmp/untidy"
expect 1 "0 passed, 1 failed, 0 skipped" a_failure_that_leaves_things_is_one \
    "$tmp/untidy_and_bad"
expect 0 "2 passed, 0 failed, 0 skipped" a_slow_test_is_no_failure \
    "$tmp/good" "$tmp/second"
n=$((n + 1))
if grep -q "^  slowest: .*$tmp/second [0-9]*\.[0-9] s" "$tmp/said"; then
    echo "ok $n - the_slowest_tests_are_named"
else
    echo "not ok $n - the_slowest_tests_are_named"
fi
expect 0 "2 passed, 0 failed, 0 skipped" tests_that_wait_run_beside_the_others \
    -j 1 -t 20 -m 1 "$tmp/waits" "$tmp/waits" "$tmp/makes"
expect 0 "1 passed, 0 failed, 0 skipped" a_waiting_test_does_not_ignore_sigint \
    -m 1 "$tmp/heeds" "$tmp/heeds"
n=$((n + 1))
if TIMES=$tmp/times "$run" "$tmp/second" >/dev/null &&
    grep -q "^[1-9]\.[0-9]* 0\.[0-9]* $tmp/second\$" "$tmp/times"; then
    echo "ok $n - wall_and_processor_time_are_kept"
else
    echo "not ok $n - wall_and_processor_time_are_kept"
fi
export RANK=1 SLURM_JOB_ID=7 FIRN_URL=http://x FIRN_MATE_JOB=4
expect 0 "1 passed, 0 failed, 0 skipped" a_test_is_no_part_of_a_job "$tmp/alone"
unset RANK SLURM_JOB_ID FIRN_URL FIRN_MATE_JOB
export FIRN_DATA=a FIRN_QUICK=b FIRND_ENGINE=c
expect 0 "1 passed, 0 failed, 0 skipped" a_test_hears_what_it_is_asked \
    "$tmp/asked"
mkdir "$tmp/a b" "$tmp/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
for folder in "$tmp/a b" "$tmp"/aaa*; do
    export TMPDIR="$folder"
    expect 0 "1 passed, 0 failed, 0 skipped" names_of_sockets_have_room \
        "$tmp/short"
done
unset TMPDIR

# A test that fails the first time, one that fails twice, and first failures that
# a loaded machine does not explain.
first='[ -e "$0.ran" ] && exit 0; : >"$0.ran";'
script unsteady "$first echo words of the first time; exit 3"
script unsteady_cases "[ -e \"\$0.ran\" ] && echo 1..2 && echo ok 1 - a &&
    echo ok 2 - b && exit 0; : >\"\$0.ran\"
    printf '1..2\nok 1 - a\nnot ok 2 - b\n'; exit 1"
script untidy_once "$first mktemp"
script twice 'echo "1 $0" >>"$0.runs"; echo words of a failure; exit 3'
script races "$first echo 'WARNING: ThreadSanitizer: data race' >&2; exit 66"
script overflows "$first echo 'x.c:1:2: runtime error: overflow' >&2; exit 1"
script uninitialised "$first echo '==12== Conditional jump' >&2; exit 99"
script aborts "$first kill -ABRT \$\$"
script traps "$first kill -ILL \$\$"

# is NAME COMMAND...: one more case.
is()
{
    name=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$tmp/said"
    fi
}

unsteady="$tmp/unsteady $tmp/unsteady_cases $tmp/untidy_once"
expect 0 "5 passed, 0 failed, 0 skipped, 3 unsteady" \
    a_test_that_passes_alone_is_unsteady -r "$unsteady" $unsteady "$tmp/good"
is an_unsteady_test_is_named \
    grep -q "^  unsteady: $tmp/unsteady failed once, passed alone\$" "$tmp/said"
is the_output_of_its_first_failure_is_printed \
    grep -q '^ *words of the first time$' "$tmp/said"
rm -f "$tmp"/*.ran
expect 1 "2 passed, 4 failed, 0 skipped" \
    without_a_list_of_timed_tests_it_has_failed $unsteady "$tmp/bad"
rm -f "$tmp"/*.ran
export CHECK_STRICT=1
expect 1 "2 passed, 1 failed, 0 skipped" a_strict_check_counts_it_as_failed \
    -r "$tmp/unsteady" "$tmp/unsteady" "$tmp/good" "$tmp/tidy"
is a_strict_check_names_it grep -q "^  unsteady: $tmp/unsteady failed once" \
    "$tmp/said"
unset CHECK_STRICT
expect 1 "1 passed, 1 failed, 0 skipped" a_test_that_fails_twice_has_failed \
    -r "$tmp/twice" "$tmp/twice" "$tmp/good"
is it_was_run_twice [ "$(grep -c . "$tmp/twice.runs")" -eq 2 ]
for name in races overflows uninitialised aborts traps; do
    expect 1 "0 passed, 1 failed, 0 skipped" "what_${name}_is_not_run_again" \
        -r "$tmp/$name" "$tmp/$name"
done
many=
for i in 1 2 3 4 5 6 7 8 9 10 11; do
    script "many$i" "$first exit 3"
    many="$many $tmp/many$i"
done
expect 1 "0 passed, 11 failed, 0 skipped" many_failures_are_not_run_again \
    -r "$many" $many
script long 'i=0; while [ $i -lt 300 ]; do i=$((i + 1)); echo line $i; done
    echo cause >&2; exit 3'
expect 1 "0 passed, 1 failed, 0 skipped" a_long_output_is_cut "$tmp/long"
is its_last_hundred_lines_are_printed \
    [ "$(grep -c '^ *line [0-9]*$' "$tmp/said")" -eq 100 ]
is its_errors_are_printed grep -q '^ *cause$' "$tmp/said"

TALLY=$tmp/tally "$run" "$tmp/three" "$tmp/bad" >/dev/null
n=$((n + 1))
if [ "$("$run" --sum "$tmp/tally")" = "  failed: $tmp/bad
2 passed, 1 failed, 1 skipped" ]; then
    echo "ok $n - a_tally_adds_up_over_runs_and_names_what_failed"
else
    echo "not ok $n - a_tally_adds_up_over_runs_and_names_what_failed"
fi
echo "1..$n"
