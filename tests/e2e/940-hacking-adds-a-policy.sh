#!/bin/sh
# The policy in HACKING.md, taken from the page as it stands, builds and runs
# as one file and one line, ages running jobs, and passes the conformance suite.
# The build continues from what is built, as for a reader of that page.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${FIRN_BUILD:-build}
case $build in
/*) build=build ;; # a folder of its own, not that one
esac
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-hacking.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

cd "$root"
set -- Makefile include src tests/lib tests/policy traces
for made in obj/src obj/tests/lib obj/tests/policy gen flags; do
    [ -e "$build/$made" ] && set -- "$@" "$build/$made"
done
tar cf - "$@" | tar xf - -C "$tmp"
# The first C block that defines a policy, and the line behind it.
awk '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on && n == 1' \
    HACKING.md > "$tmp/src/policy/las.c"
awk '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on && n == 2' \
    HACKING.md >> "$tmp/src/policy/policies.def"
grep -q 'firn_policy_las' "$tmp/src/policy/las.c"

cd "$tmp"
make -s BUILD="$build" "$build/firn" > make.log 2>&1 || { cat make.log; exit 1; }
"$build/firn" sim --trace traces/quickstart.csv --cluster pollux \
    --policy las -o csv > out.csv
grep -q ',las,' out.csv || { cat out.csv; exit 1; }
# 6h02m when running jobs age, 10h59m when they do not.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "jct_mean_s") at = i }
    NR == 2 && !($at < 7 * 3600) { print "mean JCT " $at " s"; exit 1 }' out.csv
make -s BUILD="$build" "$build/tests/policy/test_all" > make.log 2>&1 ||
    { cat make.log; exit 1; }
"$build/tests/policy/test_all" > test.log 2>&1 || { cat test.log; exit 1; }
