#!/bin/sh
# run_cppcheck.sh - cppcheck over the sources.
#
# Only what is surely wrong or slow, not taste; a line that knows better says
# why in a comment "cppcheck-suppress id". Casts of pointers are how tables of
# offsets work (firn/option.h), so they are not looked at.
# FIRN_BUG() is shown to it as abort(), of which it knows that it never comes
# back.

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
