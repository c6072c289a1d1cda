#!/bin/sh
# The quick start's live acts end with 0 when their jobs are done, and with the
# signal's status when it is interrupted; either way no file is left below
# TMPDIR, and no process that was told of its folder.
. tests/lib/e2e.sh
[ -x "${FIRN}d" ] || skip "firnd is not built"
"$FIRN" help | grep -q '^  submit ' || skip "firn was built without its client"
export FIRN QUICKSTART_SAMPLES=128
export TMPDIR="$tmp/there"
mkdir "$TMPDIR"

# is_alone: no process has the folder in its arguments, but for this search.
is_alone()
{
    for file in $(grep -lsF "$TMPDIR/firn-quickstart" /proc/[0-9]*/cmdline); do
        [ ! -e "$file" ] || return 1
    done
}

nothing_left()
{
    [ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls "$TMPDIR"/*)"
    is_alone || fail "processes are left"
}

# The five papers' policies each differ from the run without their freedom.
./quickstart --act replay >"$tmp/out" 2>"$tmp/err" ||
    fail "the replay ended with status $?"
err_is_empty
nothing_left
sed -n '/^policy *freedom/,/^$/p' "$tmp/out" | sed 1d |
    grep -o '[0-9]* s  *[0-9]* s' >"$tmp/pairs"
[ "$(wc -l <"$tmp/pairs")" -eq 5 ] || fail "not five pairs"
while read -r with _ without _; do
    [ "$with" -ne "$without" ] || fail "equal: $with s"
done <"$tmp/pairs"
report=$(sed -n 's/^All runs with plots: //p' "$tmp/out")
grep -q easyscale "$report" || fail "no report"

./quickstart --act live >"$tmp/out" 2>"$tmp/err" ||
    fail "it ended with status $?"
out_has 'rigid      cnn: '
out_has 'http://127.0.0.1:'
err_is_empty
nothing_left

./quickstart --act merge >"$tmp/out" 2>"$tmp/err" ||
    fail "the second ended with status $?"
out_has 'trained by job'
err_is_empty
nothing_left

# Jobs run when it gets the signal.
QUICKSTART_SAMPLES=8192 ./quickstart --act live >"$tmp/out" 2>"$tmp/err" &
pid=$!
job_runs()
{
    ls "$TMPDIR"/*/live/control/*/epoch-1/pid >/dev/null 2>&1
}
await "no job runs" job_runs
kill -TERM $pid
wait $pid
[ $? -eq 143 ] || fail "the signal's status is lost"
nothing_left

./quickstart --act none >"$tmp/out" 2>"$tmp/err" && fail "no such act"
err_has "There is no act 'none'"
nothing_left
exit 0
