#!/bin/sh
# run_tidy.sh - clang-tidy over the sources, with the checks of .clang-tidy.
#
# Compiler warnings of clang are errors here too. Headers are looked at where
# they are included. tools/tidy.h goes before each file but the one that
# defines what it wraps. JOBS files at once.

cd "$(dirname "$0")/.." || exit 2
command -v clang-tidy >/dev/null || { echo "no clang-tidy"; exit 77; }
warn="-Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wconversion"
flags="-std=c17 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc $warn
    $(pkg-config --cflags libcyaml cminpack lapacke)"
jobs=${JOBS:-$(nproc)}

# The words of $flags are meant to be split.
one='flags=$1; shift
    [ "$1" = src/base/status.c ] || flags="$flags -include tools/tidy.h"
    clang-tidy --quiet "$1" -- $flags 2>/dev/null'
find src -name '*.c' | sort | xargs -P "$jobs" -n 1 sh -c "$one" tidy "$flags"
