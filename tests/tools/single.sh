#!/bin/sh
# single.sh - `make test T=NAME` runs the tests of that name and no others. TAP
# on stdout. make only prints what it would run.

cd "$(dirname "$0")/../.." || exit 1
n=0

# selects T TEST...: exactly these tests are run?
selects()
{
    t=$1
    shift
    n=$((n + 1))
    got=$(make -n test T="$t" 2>/dev/null |
        sed -n 's/.*run_tests.sh -j [0-9]* -v *//p' | xargs)
    if [ "$got" = "$*" ]; then
        echo "ok $n - make_test_T_selects_${t##*/}"
    else
        echo "not ok $n - make_test_T_selects_${t##*/}"
        echo "# it runs: $got"
    fi
}

selects arena build/tests/base/test_arena
selects test_arena build/tests/base/test_arena
selects core/test_plan build/tests/core/test_plan
selects 'arena rng' build/tests/base/test_arena build/tests/base/test_rng
selects 010 tests/e2e/010-sim-prints-a-table.sh
selects tools/counts tests/tools/counts.sh
selects test_loader tests/e2e/935-pytorch-runs-are-the-same-bits.sh
n=$((n + 1))
if make test T=no-such-test >/dev/null 2>&1; then
    echo "not ok $n - an_unknown_name_is_an_error"
else
    echo "ok $n - an_unknown_name_is_an_error"
fi
echo "1..$n"
