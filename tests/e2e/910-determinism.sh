#!/bin/sh
# 910-determinism.sh - same trace, seed and policy: the same bytes.
#
# Builds firn again by another compiler without optimisation, as far as it computes
# (with FIRN_SOAK all of it, and by each compiler with more of it), and runs it with eight processes, the plain
# build with one (in a soak with eight, too): the first 80 jobs of the bundled
# trace (in a soak all 400) and a generated one, every policy, node failures from
# a seed. Summaries and all files written
# must be equal byte for byte; only the measured cpu_s may differ. TAP on stdout,
# one case for each build.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${FIRN_BUILD:-build}
FIRN=${FIRN:-$build/firn}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-det.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
n=0

"$FIRN" trace gen --cluster pollux --jobs 60 --seed 11 >"$tmp/drawn.csv" || {
    echo "cannot draw a trace"
    exit 1
}

# A comment, the names of the columns, and the jobs.
lines=$((2 + 80))
[ -z "${FIRN_SOAK:-}" ] || lines=$(wc -l <traces/quickstart.csv)
head -n "$lines" traces/quickstart.csv >"$tmp/quickstart.csv"

# without_cpu: the results with the measured field taken out.
without_cpu()
{
    sed 's/"cpu_s": *[0-9.e+-]*//'
}

# results PROGRAM JOBS FOLDER: writes all that firn prints and writes to FOLDER.
results()
{
    mkdir -p "$3"
    "$1" trace gen --cluster pollux --jobs 60 --seed 11 >"$3/drawn.csv" || return 1
    for trace in "$tmp/quickstart.csv" "$tmp/drawn.csv"; do
        to=$3/$(basename "$trace" .csv)
        simulate "$1" "$2" "$trace" csv --out "$to" >"$to.csv" || return 1
    done
    # The small trace, in the other format.
    simulate "$1" "$2" "$tmp/drawn.csv" json >"$3/full.json" || return 1
    without_cpu <"$3/full.json" >"$3/drawn.json"
    rm "$3/full.json"
}

# simulate PROGRAM JOBS TRACE FORMAT [OPTION...]
simulate()
{
    program=$1 jobs=$2 trace=$3 format=$4
    shift 4
    "$program" sim --trace "$trace" --cluster pollux --policy all --seed 5 \
        --mtbf 200h --mttr 1h -j "$jobs" -o "$format" "$@"
}

# same NAME FOLDER: equal to the first results.
same()
{
    n=$((n + 1))
    if diff -r "$tmp/plain" "$2" >"$tmp/diff" 2>&1; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        head -n 10 "$tmp/diff" | cut -c 1-200 | sed 's/^/# /'
    fi
}

# In the check the folders that compute are built anew; commands, engines and
# imitated simulators, which have no part in a simulation, are taken from the
# plain build.
set --
if [ -z "${FIRN_SOAK:-}" ]; then
    kept=$(for folder in cli repro compat engine wire train; do
        for file in src/"$folder"/*.c; do # an object may be of an older tree
            [ ! -f "$build/obj/${file%.c}.o" ] || echo "$build/obj/${file%.c}.o"
        done
    done | xargs)
    set -- LIBDIRS='base math model core policy trace sim' CLIOBJ="$kept"
fi

# variant NAME CC OPT JOBS [VARIABLE=...]...: builds it, runs it, compares.
variant()
{
    name=$1 cc=$2 opt=$3 processes=$4
    shift 4
    make -s -j "$(nproc)" BUILD="$build/det/$name" CC="$cc" OPT="$opt" DEBUG= "$@" \
        "$build/det/$name/firn" >"$tmp/log" 2>&1 || {
        tail -n 20 "$tmp/log" | sed 's/^/# /'
        n=$((n + 1))
        echo "not ok $n - ${name}_builds"
        return
    }
    results "$build/det/$name/firn" "$processes" "$tmp/$name" 2>"$tmp/err" ||
        sed 's/^/# /' "$tmp/err"
    same "${name}_with_${processes}_processes_gives_the_same_bytes" "$tmp/$name"
    rm -rf "${tmp:?}/$name"
}

results "$FIRN" 1 "$tmp/plain" || exit 1
files=$(find "$tmp/plain" -type f | wc -l)
policies=$("$FIRN" policies | sed '/^$/q' | wc -l) # not their options
n=$((n + 1))
if [ "$files" -gt "$policies" ]; then
    echo "ok $n - there_is_something_to_compare"
else
    echo "not ok $n - there_is_something_to_compare"
    echo "# only $files files"
fi
if [ -n "${FIRN_SOAK:-}" ]; then # in the check 080 compares the two
    results "$FIRN" 8 "$tmp/again" || exit 1
    same the_same_program_twice_gives_the_same_bytes "$tmp/again"
fi
has_clang=$(command -v clang)
if [ -n "$has_clang" ]; then
    variant clang-O0 clang -O0 8 "$@"
else
    variant gcc-O0 gcc -O0 8 "$@"
fi
if [ -n "${FIRN_SOAK:-}" ]; then
    variant gcc-O3 gcc -O3 1
    [ -z "$has_clang" ] || variant gcc-O0 gcc -O0 8
    [ -z "$has_clang" ] || variant clang-O2 clang -O2 8
fi
echo "1..$n"
