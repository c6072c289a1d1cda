#!/bin/sh
# Stopped by SIGUSR1 and gone on with other processes, killed between two
# checkpoints, its last checkpoint torn: the same bits as an undisturbed
# run.
# Shared memory of its own, where that can be had: what is left there in the end
# was left by this test, and by none that runs beside it.
for way in --mount "--user --map-root-user --mount"; do
    [ -z "${FIRN_SHM:-}" ] || break
    # shellcheck disable=SC2086 # words
    unshare $way mount -t tmpfs none /dev/shm 2>/dev/null || continue
    # shellcheck disable=SC2086 # words
    FIRN_SHM=own exec unshare $way \
        sh -c 'mount -t tmpfs none /dev/shm && exec "$0"' "$0"
done
. tests/lib/trainers.sh
small="--threads 4 --epochs 4 --samples 256 --judge 0"
# A checkpoint each step, and many seconds to the end: it is stopped before.
slowly="--every 1 --pace 600"

train whole 1 "" "$cnn" $small

# steps NAME: how far its newest checkpoint is.
steps()
{
    ls "$tmp/$1" 2>/dev/null | sed -n 's/.*-0*\([0-9]*\)\.ckpt$/\1/p' |
        tail -n 1
}

is_further()
{
    [ "$(steps "$1")" != "$2" ]
}

# begin NAME P LAYOUT: as start, until it has done a step: only then does
# it handle signals.
begin()
{
    before=$(steps "$1")
    # shellcheck disable=SC2086 # words
    start "$1" "$2" "$3" "$cnn" $small $slowly
    await "run $1 stays at step $before" is_further "$1" "$before"
}

# 4 -> 2 -> 1 -> 3 processes, each but the last stopped by its signal.
begin resized 4 ""
kill -USR1 $pids
finish 83
begin resized 2 1,0,0,1
kill -USR1 $pids
finish 83
begin resized 1 ""
kill -USR1 $pids
finish 83
train resized 3 "" "$cnn" $small
same whole resized

# Killed without a word, between two checkpoints; and the newest one torn.
begin killed 2 ""
await "run killed stays there" is_further killed "$(steps killed)" # two of them
kill -9 $pids
for pid in $pids; do wait "$pid"; done
file=$(newest killed)
size=$(wc -c <"$file")
head -c $((size - 100)) "$file" >"$tmp/torn" && mv "$tmp/torn" "$file"
train killed 3 "" "$cnn" $small
grep -q "killed-.*ckpt" "$tmp"/killed/out.* ||
    fail "the log does not say that a checkpoint was skipped"
same whole killed

# A folder that cannot be is told before training, by all; one that is not
# there is made.
: >"$tmp/file"
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 FIRN_JOB=nodir "$cnn" $small \
        --dir "$tmp/file/ck" >"$tmp/nodir.$rank" 2>&1 &&
        fail "trained without a folder for its checkpoints" &
done
wait
grep -q "Not a directory" "$tmp/nodir.0" || fail "process 0 did not say why"
grep -q "process 0 cannot write" "$tmp/nodir.1" || fail "process 1 said nothing"
"$cnn" --epochs 1 --samples 32 --judge 0 --dir "$tmp/a/b/c" >/dev/null ||
    fail "folders are not made"
[ -z "${FIRN_SHM:-}" ] || [ -z "$(ls /dev/shm)" ] ||
    fail "shared memory was left behind: $(ls /dev/shm)"
exit 0
