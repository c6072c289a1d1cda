#!/bin/sh
# A job deletes all that it finds below its folder and the folder above, a job
# deletes firn's control files; firnd is killed and comes back. No job is ever
# there twice, and each that ended well ran once.
. tests/lib/firnd.sh
only local "on Slurm its queue tells what runs"

# Says that it is there, deletes, waits until it is told to end. A second one
# beside it, on any GPU, is found by the folder that both want to make.
cat >"$tmp/vandal" <<END
#!/bin/sh
mkdir "$tmp/there.\$FIRN_JOB" || echo twice >>"$tmp/twice"
echo "\$FIRN_EPOCH" >>"$tmp/ran.\$FIRN_JOB"
\$1
: >"$tmp/deleted.\$FIRN_JOB"
until [ -e "$tmp/go" ] || [ ! -d "$tmp" ]; do sleep 0.2; done
rmdir "$tmp/there.\$FIRN_JOB"
END
chmod +x "$tmp/vandal"

rounds=1
[ -z "${FIRN_SOAK:-}" ] || rounds=20
round=0 id=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    rm -rf "$tmp"/go "$tmp"/deleted.*
    up --gpus 1x3:v100@16 --policy fifo
    for what in 'rm -rf ./* ./.[!.]*' 'rm -rf ../* ./*' \
        "rm -rf $tmp/state/control/$((id + 3))"; do
        submit "j$((id + 1))" 1 "" "$tmp/vandal" "$what"
        id=$((id + 1))
    done
    for i in $((id - 2)) $((id - 1)) $id; do
        wait_state "j$i" running
        await "job $i did not delete" [ -e "$tmp/deleted.$i" ]
    done
    down KILL
    up --gpus 1x3:v100@16 --policy fifo
    for i in $((id - 2)) $((id - 1)) $id; do
        wait_state "j$i" running
        [ "$(field "j$i" epoch)" = 1 ] || fail "j$i was started again"
    done
    touch "$tmp/go"
    wait_state "j$((id - 2))" succeeded
    wait_state "j$((id - 1))" succeeded
    wait_state "j$id" lost # how it ended could not be written down
    down
    [ ! -e "$tmp/twice" ] || fail "two starts at once"
    for i in $((id - 2)) $((id - 1)) $id; do
        [ "$(cat "$tmp/ran.$i")" = 1 ] ||
            fail "job $i ran as $(tr '\n' ' ' <"$tmp/ran.$i")"
    done
done

# Ended while firnd was away, and its files are gone too: not run again.
rm -f "$tmp/go"
up --gpus 1x3:v100@16 --policy fifo
id=$((id + 1))
submit gone 1 "" "$tmp/vandal" "rm -rf $tmp/state/control/$id"
wait_state gone running
await "it did not delete" [ -e "$tmp/deleted.$id" ]
down KILL
touch "$tmp/go"
await "it did not end" [ ! -e "$tmp/there.$id" ]
up --gpus 1x3:v100@16 --policy fifo
wait_state gone lost
[ "$(cat "$tmp/ran.$id")" = 1 ] || fail "it ran again"
down
exit 0
