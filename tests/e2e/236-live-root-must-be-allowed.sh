#!/bin/sh
# Jobs run as the user of firnd: as root firnd starts only when a flag or
# firn.yaml allows it, and then the log warns of it.
. tests/lib/firnd.sh
only local "it is about firnd alone"
[ "$(id -u)" = 0 ] || skip "the test does not run as root"
timeout 240 "$firnd" --gpus 1x2:v100@16 --state "$tmp/state" \
    --socket "$socket" 2>"$tmp/refused"
status=$?
[ "$status" = 2 ] || fail "firnd as root ended with status $status, not 2"
grep -q 'every job would run as root.*--allow-root' "$tmp/refused" ||
    fail "the refusal does not say why and what to do: $(cat "$tmp/refused")"
[ ! -e "$tmp/state" ] || fail "the refused firnd made a state folder"
printf 'allow-root: yes\ngpus: 1x2:v100@16\n' >"$tmp/firn.yaml"
"$firnd" --config "$tmp/firn.yaml" --state "$tmp/state" --socket "$socket" \
    2>>"$tmp/err" &
daemon=$!
await "firnd does not answer" answers
grep -q 'warning: firnd runs as root' "$tmp/err" ||
    fail "the log does not warn that jobs run as root"
down
