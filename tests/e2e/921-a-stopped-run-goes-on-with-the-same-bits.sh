#!/bin/sh
# Stopped by SIGUSR1 and gone on with other processes, killed between two
# checkpoints, its last checkpoint torn: the same bits as a run that nobody
# disturbed.
. tests/lib/trainers.sh
small="--threads 4 --epochs 4 --samples 256 --judge 0 --every 3"

train whole 1 "" "$cnn" $small

# wait_for NAME STEPS: until it has written that checkpoint or a later one.
wait_for()
{
    tries=0
    until ls "$tmp/$1" | sed -n 's/.*-0*\([0-9]*\)\.ckpt/\1/p' |
        awk -v n="$2" '$1 >= n { found = 1 } END { exit !found }'; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || fail "run $1 never came to step $2"
        sleep 0.05
    done
}

# 4 -> 2 -> 1 -> 3 processes, each but the last stopped by its signal.
start resized 4 "" "$cnn" $small --pace 40
wait_for resized 3
kill -USR1 $pids
finish 83
start resized 2 1,0,0,1 "$cnn" $small --pace 40
wait_for resized 12
kill -USR1 $pids
finish 83
start resized 1 "" "$cnn" $small --pace 40
wait_for resized 18
kill -USR1 $pids
finish 83
train resized 3 "" "$cnn" $small
same whole resized

# Killed without a word, between two checkpoints; and the newest one torn.
start killed 2 "" "$cnn" $small --pace 40
wait_for killed 6
kill -9 $pids
for pid in $pids; do wait "$pid"; done
file=$(newest killed)
size=$(wc -c <"$file")
head -c $((size - 100)) "$file" >"$tmp/torn" && mv "$tmp/torn" "$file"
train killed 3 "" "$cnn" $small
grep -q "killed-.*ckpt" "$tmp"/killed/out.* ||
    fail "nobody said that a checkpoint was passed over"
same whole killed
ls /dev/shm | grep -q firn && fail "shared memory was left behind"
exit 0
