#!/bin/sh
# remake.sh - results that do not change by accident.
#
#   tests/golden/remake.sh           makes all anew and compares; TAP on stdout
#   tests/golden/remake.sh --write   keeps what it made: the results are meant
#                                    to be different from now on
#
# SCENE--POLICY.tsv has the summary, one field a line, and then each job with
# the time of its end, in order of completion. Two scenes: the bundled trace
# on preset pollux, and mixed.csv (types, memory, restart costs) on preset sia
# with the failures of mixed-failures.csv, checkpoints and a decision a minute.
set -u
unset FIRN_DATA
cd "$(dirname "$0")/../.." || exit 1
FIRN=${FIRN:-build/firn}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-golden.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# scene NAME OPTION...: runs every policy, leaves NAME--POLICY.tsv in $tmp/new.
scene()
{
    name=$1
    shift
    "$FIRN" sim "$@" --policy all --quiet --output csv --out "$tmp/files" \
        >"$tmp/summary.csv" || return 1
    awk -F, -v to="$tmp/new/$name--" '
        NR == 1 { n = split($0, fields); next }
        { for (i = 1; i <= n; i++)
              print fields[i] "\t" $i >(to $2 ".tsv") }' "$tmp/summary.csv"
    for file in "$tmp/new/$name"--*.tsv; do
        base=$(basename "$file" .tsv)
        awk -F, 'NR > 1 { print $1 "\t" $7 }' \
            "$tmp/files/$base.jobs.csv" >>"$file" || return 1
    done
}

mkdir "$tmp/new" "$tmp/files"
scene quickstart --trace traces/quickstart.csv --cluster pollux &&
    scene mixed --trace tests/golden/mixed.csv --cluster sia \
        --failures tests/golden/mixed-failures.csv \
        --checkpoint-interval 10m --interval 1m || {
    echo "firn sim failed"
    exit 1
}

if [ "${1:-}" = --write ]; then
    rm -f tests/golden/*--*.tsv
    cp "$tmp"/new/*.tsv tests/golden/
    exit
fi

n=0
bad=0
for file in $(ls "$tmp/new" tests/golden | grep -e '--.*\.tsv$' | sort -u); do
    n=$((n + 1))
    if cmp -s "$tmp/new/$file" "tests/golden/$file"; then
        echo "ok $n - $file"
    else
        echo "not ok $n - $file"
        diff "tests/golden/$file" "$tmp/new/$file" 2>&1 | head -n 20 |
            sed 's/^/# /'
        bad=1
    fi
done
echo "1..$n"
exit $bad
