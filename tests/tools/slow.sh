#!/bin/sh
# slow.sh - the library of `make slow` delays what it says, and nothing without
# the variable. TAP on stdout. Only lower bounds of time are looked at.

cd "$(dirname "$0")/../.." || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-slow.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
${CC:-gcc} -std=c17 -fPIC -shared -o "$tmp/slow.so" tests/slow/slowcalls.c \
    -ldl || exit 1
n=0

say()
{
    n=$((n + 1))
    [ "$1" -eq 0 ] && echo "ok $n - $2" || echo "not ok $n - $2"
}

# Milliseconds of twenty reads and writes, at the least.
took()
{
    since=$(date +%s%N)
    env LD_PRELOAD="$tmp/slow.so" "$@" dd if=/dev/zero of="$tmp/out" bs=1 \
        count=20 2>"$tmp/err" || return 1
    echo $((($(date +%s%N) - since) / 1000000))
}

# Each of forty calls has two delays of 10 ms in the mean.
ms=$(took SLOW_CALLS=1,20) && [ "$ms" -ge 300 ]
say $? every_call_is_delayed

# A busy machine has many chances; one that is not needs one.
tries=0 ms=300
until [ "$ms" -lt 300 ] || [ "$tries" -eq 100 ]; do
    tries=$((tries + 1))
    ms=$(took SLOW=none) || ms=300
done
[ "$ms" -lt 300 ]
say $? nothing_is_delayed_without_the_variable

[ "$(wc -c <"$tmp/out")" -eq 20 ] && [ "$(LD_PRELOAD=$tmp/slow.so \
    SLOW_CALLS=0.5,5 sh -c 'echo a | cat; exit 3'; echo $?)" = "a
3" ]
say $? delayed_programs_give_the_same_results
make -n slow DELAYS=0.5,7 2>/dev/null |
    grep -q 'SLOW_CALLS=0.5,7" .*tests/engine/test_adopt .*tests/e2e/2'
say $? the_target_runs_tests_of_the_live_parts_with_it
echo "1..$n"
