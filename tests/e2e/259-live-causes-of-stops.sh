#!/bin/sh
# Who or what made a job leave its GPUs is a field of events and attempts: the
# policy (and for which job), a quota, a drain, the user, an operator, a time
# limit. The first cause of an attempt outlives a kill of the scheduler.
. tests/lib/firnd.sh
only local "causes are written by firnd, on every backend alike"
cat >"$tmp/shares.yaml" <<END
slice: 0s
projects:
  - name: vision
    gpus: 2
    borrow: no
    members: $(id -un)
  - name: speech
    members: $(id -un)
END
umask 077
od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token"
start()
{
    up --gpus 2x2:v100@16 --policy srtf --shares "$tmp/shares.yaml" \
        --listen 127.0.0.1:0 --token-file "$tmp/token"
}
start
port=$(sed -n 's|.*listens on http://127.0.0.1:||p' "$tmp/err" | tail -n 1)
FIRN_SOCKET=$socket
export FIRN_SOCKET
forever="while :; do sleep 0.2; done"

# causes JOB: the causes of its attempts and for which jobs, oldest first.
causes()
{
    api GET "/jobs/$1" | python3 -c '
import json, sys
for a in json.load(sys.stdin)["attempts"]:
    job = a.get("for_job")
    print(a.get("cause", "none") + (":%d" % job if job else ""), end=" ")'
}
# caused JOB TEXT: has it had these causes?
caused()
{
    [ "$(causes "$1")" = "$2 " ]
}
command -v python3 >/dev/null || skip "there is no python3"

# The policy stops the long job for the short one.
run 0 submit --name long --gpus 4 --project speech --duration 10h --restart -- sh -c "$forever"
wait_state long running
run 0 submit --name short --gpus 4 --project speech --duration 10m --limit 1h --restart -- sh -c "$forever"
short=$(cat "$tmp/out")
wait_state short running
await "long: $(causes long)" caused long "policy:$short"
events | grep '"preempting"' | grep -q '"cause": "policy", "for_job": '"$short" ||
    fail "no event has the cause: $(events | grep preempting)"
run 0 events --job long
out_has "(policy, for job $short)"
run 0 show long
out_has "STOPPED BY"
out_has "policy, for job $short"

# Its user holds it: by the socket, the same user.
run 0 hold short
await "short: $(causes short)" caused short user
wait_state long running

# A drain.
run 0 drain n0
await "long: $(causes long)" caused long "policy:$short drain"
run 0 undrain n0
wait_state long running

# The operator's token is not the job's user; the cause is on disk before the
# processes are gone.
curl -sf --max-time 60 -X POST -H "Authorization: Bearer $(cat "$tmp/token")" \
    "http://127.0.0.1:$port/v1/jobs/long/hold" >"$tmp/out" || fail "no hold"
down KILL
start
await "long: $(causes long)" caused long "policy:$short drain operator"

# A quota that became smaller takes GPUs back; a time limit ends a job.
run 0 submit --name over --gpus 2 --project vision --duration 1h --restart -- sh -c "$forever"
wait_state over running
sed -i 's/gpus: 2/gpus: 1/' "$tmp/shares.yaml"
kill -HUP "$daemon"
await "over: $(causes over)" caused over quota
run 0 submit --name brief --project speech --limit 1s -- sh -c "$forever"
wait_state brief cancelled
await "brief: $(causes brief)" caused brief time-limit
api GET /metrics | grep -q '^firn_stops_total{cause="time-limit"} 1$' ||
    fail "not counted: $(api GET /metrics | grep firn_stops)"
exit 0
