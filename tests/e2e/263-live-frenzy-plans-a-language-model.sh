#!/bin/sh
# frenzy: a job that says its language model and no number of GPUs gets a plan,
# GPUs to a layer times copies, on the type that holds it; its processes are
# told, and train. A model that no GPUs here hold is refused with a sentence.
. tests/lib/firnd.sh
up --gpus 1x4:v100@16,1x2:a100@40 --policy frenzy --set frenzy.memory=ours \
    --set frenzy.rank=speed --set frenzy.serve=speed

# Writes down what it is told, then trains.
cat >"$tmp/plan" <<END
#!/bin/sh
echo "\$WORLD_SIZE \$FIRN_TENSOR \$FIRN_REPLICAS" >"$tmp/\$FIRN_JOB.\$RANK"
exec "$gpt" --epochs 1 --samples 32 --judge 0 --text "$PWD/README.md"
END
chmod +x "$tmp/plan"

# model NAME HIDDEN LAYERS GPU-TYPES
model()
{
    api POST /jobs "name: $1
run: [\"$tmp/plan\"]
batch: 8
gpu: [$4]
model: {hidden: $2, layers: $3, heads: 16, vocab: 50257, seq: 1024}" \
        >/dev/null || fail "$1 was not taken"
}

# told JOB-ID GPUS TENSOR REPLICAS: all of its processes were.
told()
{
    rank=0
    while [ "$rank" -lt "$2" ]; do
        [ "$(cat "$tmp/$1.$rank")" = "$2 $3 $4" ] ||
            fail "job $1, process $rank: $(cat "$tmp/$1.$rank"), not $2 $3 $4"
        rank=$((rank + 1))
    done
    [ ! -e "$tmp/$1.$rank" ] || fail "job $1 has more than $2 processes"
}

model small 1024 24 v100
model large 2048 24 v100,a100
model huge 8192 80 v100,a100
wait_state small succeeded
wait_state large succeeded
# By predicted memory: 16 GiB hold half of a layer, and there are two copies;
# the large one needs both GPUs of 40 GiB.
told 1 4 2 2
told 2 2 2 1
held_once small "n0[0-3]" ||
    fail "small: $(api GET /jobs/small)"
held_once large "n1[0-1]" ||
    fail "large: $(api GET /jobs/large)"
[ "$(reported small nprocs)" = 4 ] || fail "small: $(reported small nprocs)"
wait_field huge reason never
api GET /jobs/huge | grep -q 'its memory fits on none' ||
    fail "huge: $(api GET /jobs/huge)"
down
exit 0
