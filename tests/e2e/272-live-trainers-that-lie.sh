#!/bin/sh
# A trainer's report is believed only if it can be true: what cannot is refused
# with a sentence and changes nothing, and the scheduler goes on. Reports need
# the job's own token, and are of the present start.
. tests/lib/firnd.sh
up --gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1
# It only waits; its reports are made here, with its own token.
cat >"$tmp/liar" <<END
#!/bin/sh
echo "\$FIRN_TOKEN \$FIRN_EPOCH" >"$tmp/token.\$FIRN_JOB"
while [ ! -e "$tmp/end" ]; do sleep 0.1; done
END
chmod +x "$tmp/liar"
submit liar 1 "checkpoint: {grace: 1}
duration: 60" "$tmp/liar"
submit other 1 "" "$tmp/liar"
wait_state liar running
wait_state other running
await "no token" [ -s "$tmp/token.1" ]
await "no token" [ -s "$tmp/token.2" ]
read -r token epoch <"$tmp/token.1"
read -r others _ <"$tmp/token.2"

# say STATUS BODY [EPOCH [TOKEN [JOB]]]: a report, and what it is answered by.
say()
{
    status=$(curl -s --max-time 60 --unix-socket "$socket" -X POST \
        -H "Authorization: Bearer ${4:-$token}" -H "Firn-Epoch: ${3:-$epoch}" \
        -H 'Content-Type: application/json' --data-binary "$2" \
        -o "$tmp/out" -w '%{http_code}' "http://firn/v1/jobs/${5:-1}/reports")
    [ "$status" = "$1" ] || fail "$2 is answered by $status, not $1"
}

say 200 '{"step": 10, "progress": 0.25, "step_s": 0.5}'
for lie in '"progress": -0.5' '"progress": 1.5' '"progress": 1e308' \
    '"progress": NaN' '"progress": 1e999' '"progress": "much"' \
    '"progress": 0.2' '"step": 9' '"step": -3' '"step": 1e19' '"step_s": -1e308' \
    '"step_s": 1e308' '"effective": 1e308' '"memory_mib": 1e308' \
    '"utilisation": 7' '"psi": -2' '"loss": Infinity' '"part_s": {"data": -4}' \
    '"part_s": {"data": 1e308}' '"variance": [1e999]'; do
    say 400 "{$lie}"
    [ "$(field liar progress)" = 0.25 ] || fail "$lie: $(field liar progress)"
    [ "$(reported liar step)" = 10 ] || fail "$lie: $(reported liar step)"
done
say 400 'nothing of the kind'
say 400 '{"step": 11'
say 400 '{"step": 11}' x
say 410 '{"step": 11}' 7
say 410 '{"step": 11}' 0
say 401 '{"step": 11}' "$epoch" 0123456789abcdef
say 403 '{"step": 11}' "$epoch" "$others"
say 200 '{"step": 11}' "$epoch" "$others" 2
[ "$(reported liar step)" = 10 ] || fail "a report went to another job"
# Such large numbers are possible, and break nothing either.
say 200 '{"step": 9007199254740991, "progress": 0.26, "loss": 1e308}'
say 200 '{"progress": 0.260000001, "step_s": 1e-300}'
say 200 '{"progress": 1}'
[ "$(field liar state)" = running ] || fail "its word ended it"
api GET /jobs/liar/eta >/dev/null || fail "no eta"
api GET /metrics >"$tmp/out" || fail "no metrics"
! grep -i ' -\{0,1\}nan$' "$tmp/out" || fail "what is not a number is counted"
down KILL # and all of it is read again
up --gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1
[ "$(field liar progress)" = 1 ] || fail "progress $(field liar progress)"
: >"$tmp/end"
wait_state liar succeeded
wait_state other succeeded
down
exit 0
