#!/bin/sh
# 095-a-reader-that-left-is-no-news.sh - a broken pipe is quiet; a full disk not.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 20
{ "$FIRN" sim --trace "$tmp/jobs.csv" --cluster 2x8:v100 --policy all \
    2>"$tmp/err"; } | :
err_is_empty
"$FIRN" help 2>"$tmp/err" | :
err_is_empty
[ -w /dev/full ] || exit 0
"$FIRN" sim --trace "$tmp/jobs.csv" --cluster 2x8:v100 --policy fifo \
    >/dev/full 2>"$tmp/err" && fail "a full disk is not noticed"
err_has "standard output: No space left on device"
exit 0
