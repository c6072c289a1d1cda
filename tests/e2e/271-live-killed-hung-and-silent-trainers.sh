#!/bin/sh
# Trainers that misbehave. Killed: tried again by its rule from its last
# checkpoint, or failed by a signal where there is no rule. Hung, deaf to every
# request, its children hidden in sessions of their own: ended by force after
# its grace, and its GPU is free only then. Silent: runs to its end.
. tests/lib/firnd.sh
up --gpus 1x3:v100@16 --policy fifo

# worker JOB-ID EPOCH: the process number of its worker.
worker()
{
    cat "$tmp/pid.$1.$2"
}

cat >"$tmp/cnn" <<END
#!/bin/sh
echo \$\$ >"$tmp/pid.\$FIRN_JOB.\$FIRN_EPOCH"
exec "$cnn" "\$@"
END
chmod +x "$tmp/cnn"

# Ignores all that can be ignored, and so does its child.
cat >"$tmp/deaf" <<END
#!/bin/sh
trap '' USR1 TERM INT HUP
setsid sh -c 'trap "" TERM; echo \$\$ >"$tmp/hidden"; sleep 600' &
echo \$\$ >"$tmp/deafpid"
while :; do sleep 0.1; done
END
chmod +x "$tmp/deaf"

submit kept 1 "checkpoint: {grace: 10}
retry: {on: [failure], max: 1}" "$tmp/cnn" --threads 1 --epochs 30 --samples 256 \
    --judge 0 --pace 20 --every 2
submit rigid 1 "" "$tmp/cnn" --epochs 30 --samples 256 --judge 0 --pace 20
submit deaf 1 "checkpoint: {grace: 1}" "$tmp/deaf"
submit silent 3 "" /bin/sleep 0.1
wait_state deaf running
wait_reported kept step '[1-9]*'
wait_state rigid running
kill -9 "$(worker 1 1)" "$(worker 2 1)"
wait_state rigid failed
[ "$(field rigid reason)" = signal ] || fail "rigid: $(field rigid reason)"
wait_field kept epoch 2
wait_state kept running
[ "$(field kept retries)" = 1 ] || fail "$(field kept retries) retries"
api GET /jobs/kept | grep -q '"end": "failed", "exit_status": 137' ||
    fail "$(api GET /jobs/kept)"
wait_reported kept step '[1-9]*'
api GET /jobs/kept/logs | grep -q '^resumed at step [1-9]' ||
    fail "it began from nothing: $(api GET /jobs/kept/logs)"
kill -9 "$(worker 1 2)"
wait_state kept failed # one retry, no more
[ "$(field kept retries)" = 1 ] || fail "$(field kept retries) retries"

# Asked, told, killed: a second each.
since=$(date +%s)
api POST /jobs/deaf/cancel "" >/dev/null || fail "not cancelled"
[ "$(field deaf state)" = completing ] || fail "deaf is $(field deaf state)"
[ "$(field silent epoch)" = 0 ] || fail "a GPU was given out too early"
wait_state deaf cancelled
took=$(($(date +%s) - since))
[ "$took" -ge 1 ] || fail "it had $took s"
[ "$took" -le 15 ] || fail "it took $took s"
for file in hidden deafpid; do
    ! kill -0 "$(cat "$tmp/$file")" 2>/dev/null || fail "$file is still there"
done
wait_state silent succeeded
! api GET /jobs/silent | grep -q '"report"' || fail "silent has reported"
down
exit 0
