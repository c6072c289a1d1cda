#!/bin/sh
# check.sh - ./check says and counts what its sections do, those too that go on
# beside others, and leaves nothing when it is interrupted. TAP on stdout.
#
# A copy of it runs with a make that only says what was asked for, and fails,
# or sleeps, where $BAD or $LONG names the target.

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
case $target in all | *-built) ;; *) echo "2 0 0" >>"$TALLY" ;; esac
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

# ends STATUS LINE [VARIABLE=...]: how ./check ends then.
ends()
{
    status=$1 line=$2
    shift 2
    env TMPDIR="$tmp/left" "$@" "$tmp/check" >"$tmp/said" 2>&1
    [ $? -eq "$status" ] && [ "$(tail -n 1 "$tmp/said")" = "$line" ] &&
        [ -z "$(ls -A "$tmp/left")" ]
}

# Headings, and below them what was made.
is_in_order()
{
    [ "$(sed -n 's/^== \([A-Za-z-]*\).*/\1/p; s/^made //p' "$tmp/said" |
        xargs)" = "Build all Style style Unit test End e2e Unit asan \
Unit tsan Unit valgrind clang-tidy tidy Fuzzing fuzz" ]
}

ends 0 "16 passed, 0 failed, 0 skipped"
say $? all_sections_are_counted
is_in_order
say $? what_goes_on_beside_is_said_under_its_heading
ends 1 "14 passed, 1 failed, 0 skipped" BAD=tidy
say $? what_fails_beside_is_counted
ends 1 "14 passed, 1 failed, 0 skipped" BAD=e2e
say $? what_fails_is_counted
ends 0 "16 passed, 0 failed, 0 skipped" BAD=tsan-built
say $? what_was_not_built_ahead_is_left_to_its_section

# The whole group, as a terminal does it.
TMPDIR=$tmp/left LONG=tidy setsid env --default-signal=INT "$tmp/check" \
    >"$tmp/said" 2>&1 &
pid=$!
until pgrep -g $pid -f 'sleep 1000.5' >/dev/null &&
    grep -q '^== clang' "$tmp/said"; do
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
[ $rc -eq 130 ] && ! pgrep -g $pid >/dev/null && [ -z "$(ls -A "$tmp/left")" ]
say $? an_interrupt_leaves_no_file_and_no_process
echo "1..$n"
