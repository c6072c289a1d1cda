#!/bin/sh
# Connections that send nothing take all descriptors that firnd leaves them,
# while jobs end: each job ran once, its end is known, and the socket answers.
. tests/lib/firnd.sh
only local "the engine's own descriptors are meant"
curl --version | grep -q telnet || skip "this curl does not know telnet"

(umask 077 && echo secret-of-the-operator >"$tmp/token")
flood=90
ulimit -n 64 # of firnd and of all that is started here
port=$(awk 'BEGIN { srand(); print 20000 + int(rand() * 10000) }')
callers=''
hang_up()
{
    # shellcheck disable=SC2086 # numbers
    [ -z "$callers" ] || kill $callers 2>/dev/null
    callers=''
}
trap 'hang_up; cleanup' EXIT
up --gpus 1x4:v100@16 --policy fifo --listen "127.0.0.1:$port" \
    --token-file "$tmp/token"
for i in 1 2 3 4; do
    submit "j$i" 1 "" sh -c "ulimit -n >>$tmp/limit; echo r >>$tmp/ran.$i; until [ -e $tmp/go ] || [ ! -d $tmp ]; do sleep 0.2; done"
    wait_state "j$i" running
done
grep -qx 64 "$tmp/limit" || fail "jobs have another limit than firnd had"

mkfifo "$tmp/silence"
exec 9<>"$tmp/silence"
while [ "$flood" -gt 0 ]; do
    curl -s --max-time 300 "telnet://127.0.0.1:$port" <&9 >/dev/null 2>&1 &
    callers="$callers $!"
    flood=$((flood - 1))
done
# connected: how many callers has the kernel connected to the port?
connected()
{
    hex=$(printf '%04X' "$port")
    [ "$(grep -ci ":$hex 0*:0* 0A\|:[0-9A-F]* 0100007F:$hex 01" \
        /proc/net/tcp)" -ge 60 ]
}
await "the callers do not come through" connected
touch "$tmp/go"
for i in 1 2 3 4; do
    wait_state "j$i" succeeded
    [ "$(field "j$i" epoch)" = 1 ] || fail "j$i was started again"
done
hang_up
for i in 1 2 3 4; do
    [ "$(wc -l <"$tmp/ran.$i")" -eq 1 ] ||
        fail "j$i ran $(wc -l <"$tmp/ran.$i") times"
done
down
exit 0
