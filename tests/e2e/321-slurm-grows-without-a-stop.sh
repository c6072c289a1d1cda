#!/bin/sh
# On Slurm an elastic job grows onto a second node: a further allocation is asked
# for, and its worker joins over TCP while the job trains, in one attempt. When
# another job comes, the allocation goes back, again without a stop. Its events
# tell the pauses, and its last weights equal those of an undisturbed run. A job
# that ends while it grows ends all the same.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0"
# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small

# Trains slowly until it is told otherwise.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 100
exec "$cnn" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.02; done
END
chmod +x "$tmp/cnn" "$tmp/other"

# told N: do the events tell of N resizes?
told()
{
    [ "$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")" -ge "$1" ]
}

# allocations: how many jobs Slurm runs for the attempt.
allocations()
{
    timeout 240 squeue -h -t R -o %j | grep -c '^firn:[0-9]*:1:1'
}

has()
{
    [ "$(allocations)" = "$1" ]
}

up --gpus 2x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set slurm.poll=0.1
api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
# shellcheck disable=SC2086 # words
submit job 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}" "$tmp/cnn" $small
wait_state job running
await "it does not say that processes can join" says /jobs/job '"join"'
has 1 || fail "Slurm runs $(allocations) allocations of it at first"
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no event tells of the growth" told 1
has 2 || fail "Slurm runs $(allocations) allocations of it, not two"
[ "$(slurm_nodes)" = "n0 n1" ] || fail "it runs on $(slurm_nodes)"
submit second 1 "" "$tmp/other" # one GPU for each
await "no event tells that it shrank" told 2
wait_state second running
await "Slurm still runs $(allocations) allocations" has 1
[ "$(field job epoch)" = 1 ] || fail "it was restarted"
"$FIRN" show --socket "$socket" job | grep -q "without a stop" ||
    fail "show has no resize: $("$FIRN" show --socket "$socket" job)"
touch "$tmp/fast" "$tmp/gone" # the rest is trained by another attempt
api POST /jobs/job/hold "" >/dev/null || fail "not held"
wait_state job pending
api POST /jobs/job/release "" >/dev/null || fail "not released"
wait_state job succeeded
mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"

# The job ends while a process is about to join it: that process is not waited for.
cat >"$tmp/brief" <<END
#!/bin/sh
if [ -n "\$FIRN_JOIN_ORDER" ]; then
    touch "$tmp/joins"
    exec sleep 3000
fi
"$cnn" "\$@" --pace 100 &
until [ -e "$tmp/joins" ]; do sleep 0.02; done
kill -9 \$!
exit 0
END
chmod +x "$tmp/brief"
api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
submit brief 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}" "$tmp/brief" --threads 4 --batch 16 --epochs 20000 --samples 128
wait_state brief running
await "it does not say that processes can join" says /jobs/brief '"join"'
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
await "no process is about to join it" test -e "$tmp/joins"
wait_state brief succeeded
[ "$(field brief epoch)" = 1 ] || fail "brief was restarted"
none_left() { [ -z "$(timeout 240 squeue -h -o %j)" ]; }
await "Slurm still has $(timeout 240 squeue -h -o '%j %T')" none_left
down
exit 0
