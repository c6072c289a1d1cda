#!/bin/sh
# On Slurm an elastic job goes from one node to two, three and another one, each
# time another size and by a restart, with its processes really on those nodes; its
# last weights equal those of an undisturbed run.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 3x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set slurm.join-s=0
small="--threads 6 --batch 6 --epochs 40 --samples 48 --judge 0"
# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small

# Half a second a step, with a checkpoint each; the last start waits for its
# word, and then goes to the end at once.
cat >"$tmp/paced" <<END
#!/bin/sh
[ -e "$tmp/last" ] || exec "$cnn" $small --every 1 --pace 500
until [ -e "$tmp/go" ]; do
    sleep 0.2
done
exec "$cnn" $small
END
chmod +x "$tmp/paced"

# steps: how far its newest checkpoint is.
steps()
{
    ls "$tmp/state/jobs/1/ckpt" 2>/dev/null |
        sed -n 's/.*-0*\([0-9]*\)\.ckpt$/\1/p' | tail -n 1
}

# is_on NODES, is_further STEPS
is_on()
{
    [ "$(slurm_nodes)" = "$1" ]
}

is_further()
{
    [ "$(steps)" != "$1" ]
}

# on GPUS NODES: the job comes to hold these GPUs, and Slurm says these nodes.
on()
{
    wait_field job gpus "$1"
    wait_state job running
    await "it does not come to be on $2" is_on "$2"
}

# trains: it does a step where it is.
trains()
{
    await "it does not train" is_further "$(steps)"
}

size()
{
    api PATCH /jobs/job "{\"gpus\": $1}" >/dev/null || fail "no new bounds"
}

submit job 1..1 "elastic: {threads: 6}
checkpoint: {grace: 60}
freeze: {rule: off}" "$tmp/paced"
on 'n?\[?\]' n0
trains
size 4
on 'n0\[0-1\]*n1\[0-1\]' 'n0 n1'
trains
api POST /nodes/n0/drain "" >/dev/null || fail "not drained"
size 3
on 'n1*n2*' 'n1 n2'
trains
api POST /nodes/n0/undrain "" >/dev/null || fail "still drained"
size 6
on 'n0*n1*n2*' 'n0 n1 n2'
trains
touch "$tmp/last"
api POST /nodes/n0/drain "" >/dev/null || fail "not drained"
api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
size 2
on 'n2\[0-1\]' n2
touch "$tmp/go"
wait_state job succeeded
[ "$(field job epoch)" -ge 5 ] || fail "only $(field job epoch) starts"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"
# It reported over TCP: how far it is was known before it ended.
events | grep -q '"kind": "succeeded"' || fail "no event"
down
exit 0
