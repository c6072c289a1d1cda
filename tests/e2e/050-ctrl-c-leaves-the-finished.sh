#!/bin/sh
# 050-ctrl-c-leaves-the-finished.sh - an interrupted batch prints what it has.
. tests/lib/e2e.sh
command -v pgrep >/dev/null 2>&1 || skip "no pgrep"
trace "$tmp/small.csv" 20
trace "$tmp/large.csv" 20000 # minutes under this policy
cat >"$tmp/batch" <<T
echo \$\$ >"$tmp/pid"
exec "$FIRN" sim --trace "$tmp/small.csv,$tmp/large.csv" --cluster 2x8:v100 \\
    --policy sia -j 2 -o csv --out "$tmp/files" >"$tmp/out" 2>"$tmp/err"
T

# small_is_over: the batch knows it, and has the large one left.
small_is_over()
{
    [ -f "$tmp/files/small--sia.jobs.csv" ] &&
        [ "$(pgrep -P "$(cat "$tmp/pid")" | wc -l)" -eq 1 ]
}

sh "$tmp/batch" &
await "the small run does not end" small_is_over
kill -TERM $!
wait $!
rc=$?
[ $rc -eq 130 ] || fail "status $rc, not 130"
[ "$(wc -l <"$tmp/out")" -eq 2 ] || fail "a head and one row"
out_has "small.csv,sia,"
err_has "interrupted; 1 of 2 runs finished"

# The same from a terminal.
command -v script >/dev/null 2>&1 || exit 0
rm -r "$tmp/files" "$tmp/pid"
cat >"$tmp/go" <<T
trap : INT
sh "$tmp/batch"
echo \$? >"$tmp/rc.new"
mv "$tmp/rc.new" "$tmp/rc"
T
{
    await "the small run does not end" small_is_over
    printf '\003'
    await "the shell on the terminal does not go on" [ -f "$tmp/rc" ]
} | SHELL=/bin/sh script -qc "sh $tmp/go" /dev/null >"$tmp/terminal"
[ -f "$tmp/rc" ] || fail "the shell on the terminal did not go on"
[ "$(cat "$tmp/rc")" -eq 130 ] || fail "status $(cat "$tmp/rc"), not 130"
out_has "small.csv,sia,"
exit 0
