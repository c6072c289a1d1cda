#!/bin/sh
# On Slurm an elastic job goes from one node to two, three and another one, each
# time another size, with its processes really on those nodes; its last weights
# are those of a run that nobody disturbed.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 3x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
small="--threads 6 --epochs 12 --samples 256 --judge 0"
# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small

# on GPUS NODES: the job comes to hold these GPUs, and Slurm says these nodes.
on()
{
    wait_field job gpus "$1"
    wait_state job running
    tries=0
    until [ "$(slurm_nodes)" = "$2" ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] ||
            fail "not on $2: $(squeue -h -t all -o '%N %T') $(api GET /jobs)"
        sleep 0.1
    done
    sleep 0.4 # it trains there
}

size()
{
    api PATCH /jobs/job "{\"gpus\": $1}" >/dev/null || fail "no new bounds"
}

# shellcheck disable=SC2086 # words
submit job 1..1 "elastic: {threads: 6}
checkpoint: {grace: 10}
freeze: {rule: off}" "$cnn" $small --pace 40
on 'n?\[?\]' n0
size 4
on 'n0\[0-1\]*n1\[0-1\]' 'n0 n1'
api POST /nodes/n0/drain "" >/dev/null || fail "not drained"
size 3
on 'n1*n2*' 'n1 n2'
api POST /nodes/n0/undrain "" >/dev/null || fail "still drained"
size 6
on 'n0*n1*n2*' 'n0 n1 n2'
api POST /nodes/n0/drain "" >/dev/null || fail "not drained"
api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
size 2
on 'n2\[0-1\]' n2
wait_state job succeeded 60
[ "$(field job epoch)" -ge 5 ] || fail "only $(field job epoch) starts"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff "$(newest whole)" "$(newest job)" >"$tmp/out"
grep -q '^weights  *0 of 1 ' "$tmp/out" || fail "the weights differ"
grep -q '^optimiser  *0 of 1 ' "$tmp/out" || fail "the optimiser differs"
# It reported over TCP: how far it is was known before it ended.
events | grep -q '"kind": "succeeded"' || fail "no event"
down
exit 0
