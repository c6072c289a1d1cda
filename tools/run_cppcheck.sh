#!/bin/sh
# run_cppcheck.sh - cppcheck over the sources.
#
# Warnings, performance and portability, not style; a false alarm is suppressed
# by a comment "cppcheck-suppress id" with the reason. Casts of pointers are not
# reported: tables of offsets need them (firn/option.h). FIRN_BUG() is defined as
# abort(), so that cppcheck knows that it does not return.

cd "$(dirname "$0")/.." || exit 2
command -v cppcheck >/dev/null || { echo "no cppcheck"; exit 77; }
cppcheck --quiet --std=c11 --language=c -j "${JOBS:-$(nproc)}" \
    --enable=warning,performance,portability --inline-suppr \
    --suppress=invalidPointerCast \
    --suppress=arrayIndexThenCheck --suppress=missingInclude \
    --suppress=missingIncludeSystem --suppress=unmatchedSuppression \
    --suppress=normalCheckLevelMaxBranches \
    --error-exitcode=1 -D_POSIX_C_SOURCE=200809L \
    '-Dfirn_bug_(...)=abort()' -Iinclude -Isrc src
