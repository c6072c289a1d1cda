#!/bin/sh
# run_tidy.sh - clang-tidy over the sources, with the checks of .clang-tidy.
#
# Compiler warnings of clang are errors here too. Headers are looked at where
# they are included. tools/tidy.h goes before each file but status.c, which
# defines the functions that it wraps. JOBS processes at once, twelve files each,
# because the start of one costs as much as half a file. The analyser stops a
# function after 1000 states (24 files take 1.2 s, with 2500 1.5 s, and one file of
# twelve 11.2 s with 20 000); with FIRN_SOAK=1 after its own 225 000, which takes
# ten minutes.

cd "$(dirname "$0")/.." || exit 2
command -v clang-tidy >/dev/null || { echo "no clang-tidy"; exit 77; }
warn="-Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wconversion"
flags="-std=c17 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc $warn
    $(pkg-config --cflags libcyaml cminpack lapack)"
jobs=${JOBS:-$(nproc)}
bound=
for word in -Xclang -analyzer-config -Xclang max-nodes=1000; do
    [ -n "${FIRN_SOAK:-}" ] || bound="$bound --extra-arg=$word"
done
export bound

# The words of $flags are meant to be split.
some='flags=$1; shift
    clang-tidy --quiet $bound "$@" -- $flags 2>/dev/null'
rc=0
echo src/base/status.c | xargs sh -c "$some" tidy "$flags" || rc=1
find src -name '*.c' ! -path src/base/status.c | sort |
    xargs -P "$jobs" -n 12 sh -c "$some" tidy "$flags -include tools/tidy.h" || rc=1
exit $rc
