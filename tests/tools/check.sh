#!/bin/sh
# check.sh - ./check prints and counts the results of all its sections, also of
# those in its other lanes, and leaves no file and no process when it is
# interrupted. TAP on stdout.
#
# A copy of ./check runs with a make that only prints the target it is asked
# for; that make fails for the target $BAD, sleeps for the target $LONG, and
# counts an unsteady test for the target $UNSTEADY.

root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-checked.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
mkdir "$tmp/tools" "$tmp/bin" "$tmp/left"
cp "$root/check" "$tmp/"
cp "$root/tools/run_tests.sh" "$tmp/tools/"
cat >"$tmp/tools/packages.sh" <<'P'
build_packages= check_packages= example_packages= slurm_packages=
install_missing() { :; }
install_if_possible() { :; }
P
cat >"$tmp/bin/make" <<'M'
#!/bin/sh
for target; do
    case $target in -* | *=*) ;; *) break ;; esac
done
echo "made $target"
[ "$target" != "${LONG:-}" ] || exec sleep 1000.5
[ "$target" != "${BAD:-}" ] || exit 2
case $target in built | *-built) ;; "${UNSTEADY:-}") echo "2 0 0 1" >>"$TALLY" ;;
*) echo "2 0 0" >>"$TALLY" ;; esac
M
chmod +x "$tmp/bin/make"
export PATH="$tmp/bin:$PATH"
n=0

say()
{
    n=$((n + 1))
    [ "$1" -eq 0 ] && echo "ok $n - $2" && return
    echo "not ok $n - $2"
    sed 's/^/# /' "$tmp/said"
}

# ends STATUS LINE [VARIABLE=...]: does ./check end with that exit status and
# last line?
ends()
{
    status=$1 line=$2
    shift 2
    env TMPDIR="$tmp/left" "$@" "$tmp/check" >"$tmp/said" 2>&1
    [ $? -eq "$status" ] && [ "$(tail -n 1 "$tmp/said")" = "$line" ] &&
        [ -z "$(ls -A "$tmp/left")" ]
}

# Are the headings, and the targets made below them, in this order?
is_in_order()
{
    [ "$(sed -n 's/^== \([A-Za-z-]*\).*/\1/p; s/^made //p' "$tmp/said" |
        xargs)" = "Build built Unit test End e2e Unit asan Style style \
Unit tsan clang-tidy tidy Fuzzing fuzz Unit valgrind" ]
}

ends 0 "16 passed, 0 failed, 0 skipped"
say $? the_last_line_counts_all_sections
is_in_order
say $? output_of_the_other_lanes_is_below_its_heading
ends 1 "14 passed, 1 failed, 0 skipped" BAD=tidy
say $? a_failure_in_the_second_lane_is_counted
grep -qx '  failed: clang-tidy' "$tmp/said"
say $? what_failed_is_named_at_the_end
ends 1 "14 passed, 1 failed, 0 skipped" BAD=asan
say $? a_failure_in_the_third_lane_is_counted
ends 1 "14 passed, 1 failed, 0 skipped" BAD=e2e
say $? a_failure_in_the_first_lane_is_counted
ends 0 "16 passed, 0 failed, 0 skipped" BAD=asan-built
say $? a_build_that_failed_beside_is_made_again_in_its_section

ends 0 "16 passed, 0 failed, 0 skipped, 1 unsteady" UNSTEADY=e2e
say $? unsteady_tests_are_counted_in_the_last_line

# interrupted LONG HEADING: ./check gets SIGINT while that target runs and it has
# printed that heading. The signal goes to the whole process group, as from a terminal.
interrupted()
{
    TMPDIR=$tmp/left LONG=$1 setsid env --default-signal=INT "$tmp/check" \
        >"$tmp/said" 2>&1 &
    pid=$!
    until pgrep -g $pid -f 'sleep 1000.5' >/dev/null &&
        grep -q "^== $2" "$tmp/said"; do
        kill -0 $pid || break
        sleep 0.1
    done
    kill -INT -$pid
    wait $pid
    rc=$?
    for i in 1 2 3 4 5 6 7 8 9 10; do
        pgrep -g $pid >/dev/null || break
        sleep 1
    done
    [ $rc -eq 130 ] && ! pgrep -g $pid >/dev/null &&
        [ -z "$(ls -A "$tmp/left")" ]
}
interrupted tidy clang
say $? an_interrupt_leaves_no_file_and_no_process
interrupted asan-built 'Unit and end'
say $? an_interrupt_ends_a_lane_that_waits_for_another
echo "1..$n"
