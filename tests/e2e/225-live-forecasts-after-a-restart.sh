#!/bin/sh
# A rigid job without a duration runs while firnd is started again: eta, why,
# plan and whatif answer, and SIGTERM ends firnd, also when it is sent twice.
. tests/lib/firnd.sh
only local "the job is a process of this host"
up --gpus 1x2:v100@16 --policy fifo
submit ends 1 "" sh -c true
wait_state ends succeeded
submit rigid 2 "" sleep 100000
submit waits 1 "" sh -c true
wait_state rigid running
for signal in TERM KILL TERM; do
    kill "-$signal" "$daemon"
    kill -TERM "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
    ended=$?
    daemon=
    [ "$signal" = KILL ] || [ "$ended" = 0 ] ||
        fail "two times SIGTERM: status $ended"
    up --gpus 1x2:v100@16 --policy fifo
    for ask in "eta rigid" "eta waits" "why rigid" "why waits" \
        "whatif --policy fifo,srtf" "plan --gpus 1 -- true"; do
        # shellcheck disable=SC2086 # words
        FIRN_SOCKET=$socket timeout 240 "$FIRN" $ask >"$tmp/out" 2>&1
        [ $? -ne 124 ] || fail "firn $ask does not end"
    done
    grep -q . "$tmp/out" || fail "firn plan says nothing"
done
api POST /jobs/rigid/cancel "" >/dev/null || fail "not cancelled"
wait_state waits succeeded
down
exit 0
