#!/bin/sh
# Many users submit many jobs at once, the scheduler is killed twice meanwhile:
# every job runs once, and each user is charged what the user's attempts held. With
# FIRN_SOAK 20 users with 50 jobs each, else 4 with 5.
. tests/lib/firnd.sh
only local "it is about firnd's accounts"
nusers=4 njobs=5
[ -z "${FIRN_SOAK:-}" ] || nusers=20 njobs=50
umask 077
od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token"
{
    echo "slice: 0s"
    echo "projects:"
    echo "  - {name: even, share: 2, borrow: yes, gpus: 3}"
    echo "  - {name: odd}"
    echo "users:"
    echo "  - {name: '*', queued: $((njobs + 1))}"
} >"$tmp/shares.yaml"
begin()
{
    up --gpus 2x4:v100@16 --policy fifo --shares "$tmp/shares.yaml" \
        --listen 127.0.0.1:0 --token-file "$tmp/token"
    port=$(sed -n 's|.*listens on http://127.0.0.1:||p' "$tmp/err" | tail -n 1)
}
begin
users=$(seq 1 "$nusers")
for u in $users; do
    run 0 token new --socket "$socket" --user "u$u" --role operator
    cp "$tmp/out" "$tmp/u$u"
done
# send USER: submits the user's jobs; a request that finds firnd dead is repeated.
send()
{
    project=even
    [ $(($1 % 2)) -eq 0 ] || project=odd
    for j in $(seq 1 "$njobs"); do
        until curl -sf --max-time 60 -H "Authorization: Bearer $(cat "$tmp/u$1")" \
            -H "Idempotency-Key: u$1-$j" --data-binary "name: u$1-$j
run: [sh, -c, 'echo u$1-$j >>$tmp/ran; sleep 0.1']
gpus: $((j % 3 + 1))
project: $project
retry: {max: 5}
restart: allowed" "http://127.0.0.1:$(cat "$tmp/port")/v1/jobs" >/dev/null; do
            nap
        done
    done
}
echo "$port" >"$tmp/port"
pids=
for u in $users; do
    send "$u" &
    pids="$pids $!"
done
tries=0
for kill in 1 2; do
    await "no job ended" says "/jobs?state=succeeded" '"state": "succeeded"'
    down KILL
    begin
    echo "$port" >"$tmp/port"
done
for pid in $pids; do
    wait "$pid"
done
total=$((nusers * njobs))
is_over()
{
    [ "$(api GET "/jobs?state=succeeded&limit=2000" | tr '{' '\n' |
        grep -c '"state": "succeeded"')" -eq "$total" ]
}
await "not all jobs ended" is_over
[ "$(sort -u "$tmp/ran" | wc -l)" -eq "$total" ] || fail "some jobs never ran"
run 0 usage --socket "$socket" --by user --since 1d -o csv
cp "$tmp/out" "$tmp/usage"
[ "$(grep -c "^u[0-9]*,.*,$njobs,[0-9]*\$" "$tmp/usage")" -eq "$nusers" ] ||
    fail "a user has other jobs: $(cat "$tmp/usage")"
# Held: of each attempt its GPUs (n0[0,2-3] has three) times its seconds.
held=$(for u in $users; do
    for j in $(seq 1 "$njobs"); do
        api GET "/jobs/u$u-$j" | sed 's/.*"attempts"://; s/"epochs":.*//' |
            tr '{' '\n' | sed -n 's/.*"gpus": *"\([^"]*\)", *"started_s": *\([0-9.]*\), *"ended_s": *\([0-9.]*\).*/\1|\2|\3/p'
    done
done | awk -F'|' '{
    gsub(/n[0-9]*\[/, "", $1); gsub(/\]/, "", $1); gsub(/ /, ",", $1); n = split($1, part, ","); gpus = 0
    for (i = 1; i <= n; i++) gpus += split(part[i], ends, "-") > 1 ? ends[2] - ends[1] + 1 : 1
    sum += gpus * ($3 - $2) } END { printf "%.3f", sum }')
used=$(awk -F, 'NR > 1 { sum += $2 } END { printf "%.3f", sum * 3600 }' "$tmp/usage")
awk -v a="$used" -v b="$held" 'BEGIN { d = a - b; exit !(a > 0 && d < 0.01 && d > -0.01) }' ||
    fail "charged $used GPU-seconds, held $held"
