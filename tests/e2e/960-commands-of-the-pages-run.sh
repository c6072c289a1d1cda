#!/bin/sh
# 960-commands-of-the-pages-run.sh - every command block of README.md and of the
# pages in docs/ runs as it is written: tools/run_blocks.sh. TAP on stdout.
cd "$(dirname "$0")/../.." || exit 1
[ -x "${FIRN_BUILD:-build}/firnd" ] ||
    { echo "skipped: firnd is not built"; exit 77; }
for page in README.md docs/*.md; do
    ! grep -q '^```sh$' "$page" || tools/run_blocks.sh "$page"
done
