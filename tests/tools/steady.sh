#!/bin/sh
# steady.sh - run_steady.sh counts green runs, stops at a red one, and leaves no
# busy loop behind. TAP on stdout.

cd "$(dirname "$0")/../.." || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-steady.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
. tests/lib/cases.sh
export BUILD="$tmp/build"

three_green_runs_are_counted()
{
    tools/run_steady.sh -n 3 -b 0 true >"$tmp/out" || return 1
    grep -q '^run 3: green, ' "$tmp/out" &&
        [ "$(tail -n 1 "$tmp/out")" = "3 of 3 runs in a row are green" ]
}

# The second run finds the file of the first.
a_red_run_is_the_last_one()
{
    tools/run_steady.sh -n 3 -b 0 mkdir "$tmp/once" >"$tmp/out" && return 1
    grep -q '^run 2: red, ' "$tmp/out" && grep -q . "$BUILD/steady.out" &&
        [ "$(tail -n 1 "$tmp/out")" = "1 of 3 runs in a row are green" ]
}

# The command sees its siblings: two loops, which are gone afterwards.
busy_loops_end_with_it()
{
    tools/run_steady.sh -n 1 -b 2 sh -c 'ps -o pid= --ppid $PPID |
        grep -vw $$ >"$1"' x "$tmp/loops" || return 1
    [ "$(wc -l <"$tmp/loops")" -eq 2 ] || return 1
    for pid in $(cat "$tmp/loops"); do
        [ ! -d "/proc/$pid" ] || return 1
    done
}

try three_green_runs_are_counted three_green_runs_are_counted
try a_red_run_is_the_last_one a_red_run_is_the_last_one
try busy_loops_end_with_it busy_loops_end_with_it
echo "1..$n"
