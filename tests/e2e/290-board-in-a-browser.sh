#!/bin/sh
# The board: its colours can be told apart; in a real browser every view, live
# changes, hostile texts, a lost connection, sign-in, and 5000 jobs. Without
# chromium and chromedriver only the colours are checked.
. tests/lib/e2e.sh
command -v python3 >/dev/null || skip "there is no python3"
python3 tests/board/test_colours.py >"$tmp/colours" 2>&1 || {
    cat "$tmp/colours"
    fail "the colours of the board cannot be told apart"
}
case $FIRN_BUILD in
*/*) skip "the browser looks at the plain build only" ;;
esac
[ -x "$FIRN_BUILD/firnd" ] || skip "firnd is not built"
{ command -v chromedriver && command -v chromium; } >/dev/null ||
    skip "there is no chromium with chromedriver"
python3 tests/board/test_board.py >"$tmp/out" 2>&1 || {
    cat "$tmp/out"
    fail "the board fails in a browser"
}
