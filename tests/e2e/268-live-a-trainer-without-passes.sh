#!/bin/sh
# A C trainer that never asks how many passes to run is not put beside another
# job on the condition of several passes: not at all if its job file says so,
# and if it does not, the order is withdrawn at its first report.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x1:v100@16 --policy sjf-bsbf
half="share: allowed
memory: 8GiB
batch: 32
checkpoint: {grace: 10}
elastic: {threads: 1}"
small="--threads 1 --epochs 1 --samples 64 --judge 0"

submit host 1 "$half
duration: 60" "$cnn" --threads 1 --epochs $endless --samples 512 --judge 0 --pace 50
wait_state host running
wait_reported host passes 1
says /jobs/host '"can": ["resize", "passes", "freeze"' ||
    fail "host: $(api GET /jobs/host)"
says /jobs/host '"can_from": "reported"' || fail "host: $(api GET /jobs/host)"

# shellcheck disable=SC2086 # words
submit declared 1 "$half
can: [resize]
duration: 5" "$cnn" $small --without passes
submit port 1 "$half
duration: 10" "$cnn" --threads 1 --epochs $endless --samples 512 --judge 0 \
    --pace 50 --without passes
wait_field port state running # beside the host, as its job file implies passes
wait_reported port passes 1
says /jobs/port '"can": ["resize", "freeze"' || fail "port: $(api GET /jobs/port)"
FIRN_SOCKET=$socket "$FIRN" show port >"$tmp/out" 2>&1
grep -q '^can: resize, freeze.* (reported)$' "$tmp/out" || fail "$(cat "$tmp/out")"
[ "$(field declared state)" = pending ] ||
    fail "declared is $(field declared state)"
says /jobs/declared '"can_from": "declared"' ||
    fail "declared: $(api GET /jobs/declared)"
[ "$(field host epoch)" = 1 ] || fail "the host was started anew"
api POST /jobs/port/cancel "" >/dev/null
api POST /jobs/host/cancel "" >/dev/null
wait_state declared succeeded # alone
[ "$(reported declared passes)" = 1 ] || fail "$(api GET /jobs/declared)"
down
exit 0
