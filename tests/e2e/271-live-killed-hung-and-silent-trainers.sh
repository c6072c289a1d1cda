#!/bin/sh
# Trainers that misbehave. Killed: tried again by its rule from its last
# checkpoint, or failed by a signal where there is no rule. Hung, deaf to every
# request, its children hidden in sessions of their own: ended by force after
# its grace, and its GPU is free only then. Silent: runs to its end.
. tests/lib/firnd.sh
up --gpus 1x3:v100@16 --policy fifo

# worker JOB-ID EPOCH: waits until its worker has said who it is.
worker()
{
    await "job $1 has no worker in start $2" [ -s "$tmp/pid.$1.$2" ]
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

# there PID: is it? A stranger who has its number by now was told of no folder.
cat >"$tmp/there" <<END
#!/bin/sh
case \$(tr '\\0' ' ' 2>/dev/null <"/proc/\$1/environ") in
*"$tmp/"* | '') kill -0 "\$1" ;; # or it is just ending
*) exit 1 ;;
esac 2>/dev/null
END
chmod +x "$tmp/there"

# Looks whether that one is gone.
cat >"$tmp/silent" <<END
#!/bin/sh
for file in hidden deafpid; do
    ! "$tmp/there" "\$(cat "$tmp/\$file")" || : >"$tmp/early"
done
END
chmod +x "$tmp/silent"

submit kept 1 "checkpoint: {grace: 10}
retry: {on: [failure], max: 1}" "$tmp/cnn" --threads 1 --epochs $endless \
    --samples 256 --judge 0 --pace 20 --every 2
submit rigid 1 "" "$tmp/cnn" --epochs $endless --samples 256 --judge 0 --pace 20
submit deaf 1 "checkpoint: {grace: 1}" "$tmp/deaf"
submit silent 3 "" "$tmp/silent"
wait_state deaf running
wait_reported kept step '[1-9]*'
await "kept has no checkpoint" saved 1
worker 1 1
worker 2 1
wait_state rigid running
kill -9 "$(cat "$tmp/pid.1.1")" "$(cat "$tmp/pid.2.1")"
wait_state rigid failed
[ "$(field rigid reason)" = signal ] || fail "rigid: $(field rigid reason)"
wait_field kept epoch 2
wait_state kept running
[ "$(field kept retries)" = 1 ] || fail "$(field kept retries) retries"
api GET /jobs/kept | grep -q '"end": "failed", "exit_status": 137' ||
    fail "$(api GET /jobs/kept)"
resumed()
{
    api GET /jobs/kept/logs | grep -q '^resumed at step [1-9]'
}
await "it began from nothing" resumed
worker 1 2
kill -9 "$(cat "$tmp/pid.1.2")"
wait_state kept failed # one retry, no more
[ "$(field kept retries)" = 1 ] || fail "$(field kept retries) retries"

# Asked, told, killed: a second each, and its GPU is another's only then.
await "deaf does not hide its child" [ -s "$tmp/hidden" ]
await "deaf hears" [ -s "$tmp/deafpid" ]
"$tmp/there" "$(cat "$tmp/deafpid")" || fail "deaf is not there"
since=$(date +%s)
api POST /jobs/deaf/cancel "" >/dev/null || fail "not cancelled"
wait_state deaf cancelled
took=$(($(date +%s) - since))
[ "$took" -ge 1 ] || fail "it had $took s"
for file in hidden deafpid; do
    ! "$tmp/there" "$(cat "$tmp/$file")" || fail "$file is still there"
done
wait_state silent succeeded
[ ! -e "$tmp/early" ] || fail "a GPU was given out too early"
events | grep -q '"job": 3, "kind": "completing"' ||
    fail "deaf was never completing: $(events)"
! api GET /jobs/silent | grep -q '"report"' || fail "silent has reported"
down
exit 0
