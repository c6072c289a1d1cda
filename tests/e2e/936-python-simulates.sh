#!/bin/sh
# The simulator from Python: runs, frames, policies in Python and the conformance
# suite that they pass. Needs no PyTorch.
. tests/lib/e2e.sh
python=${FIRN_PYTHON:-/usr/bin/python3}
build=$(cd "${FIRN%/firn}" && pwd)
command -v "$python" >/dev/null || skip "$python is not installed"
[ -f "$build/libfirn.so" ] || skip "libfirn.so is not built"
! grep -q __asan_init "$build/libfirn.so" ||
    skip "Python does not load a library that is built for ASan"
unset FIRN_LIB
FIRN_BUILD=$build PYTHONDONTWRITEBYTECODE=1 TMPDIR=$tmp \
    "$python" tests/python/test_sim.py >"$tmp/out" 2>&1 || {
    cat "$tmp/out"
    fail "tests of firn.sim failed"
}
exit 0
