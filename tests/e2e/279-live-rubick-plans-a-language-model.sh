#!/bin/sh
# rubick: a live job that says its language model and no number of GPUs gets
# GPUs and a plan together, by the same orders as under frenzy.
. tests/lib/firnd.sh
up --gpus 1x4:v100@16 --policy rubick

# Writes down the plan that it is told.
cat >"$tmp/plan" <<END
#!/bin/sh
env | grep -E '^(WORLD_SIZE|FIRN_(TENSOR|REPLICAS|STAGES|SHARDED|PASSES))=' \
    >"$tmp/\$FIRN_JOB.\$RANK"
END
chmod +x "$tmp/plan"

api POST /jobs "name: small
run: [\"$tmp/plan\"]
batch: 8
model: {hidden: 1024, layers: 24, heads: 16, vocab: 50257, seq: 1024}" \
    >/dev/null || fail "the job was not taken"
wait_state small succeeded
told=$(sort "$tmp/1.0") || fail "the process was told nothing"
case $told in
*WORLD_SIZE=4*) ;;
*) fail "not on all four GPUs: $told" ;;
esac
# 16 GiB do not hold a copy of it with a quarter of the batch: the plan splits
# the layers or the weights, or takes the batch in passes.
echo "$told" | grep -Eq 'FIRN_(TENSOR|PASSES)=[2-9]|FIRN_SHARDED=1' ||
    fail "no plan: $told"
down
exit 0
