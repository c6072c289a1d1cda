#!/bin/sh
# A language model that runs out of memory, though its plan was predicted to
# fit: predicted stands beside what there was, the prediction of its model is
# raised, and the second attempt has another plan. The peak that its trainer
# reports stands beside the prediction. What was learned is there after a
# restart of firnd, and another mode of the model is predicted as before.
. tests/lib/firnd.sh
only local "the trainer reports by the socket of this host"
up --gpus 1x4:a100@40 --policy frenzy

# Fails at its first attempt as PyTorch does; at its second it reports 21 GiB
# and waits for its end.
cat >"$tmp/trainer" <<END
#!/bin/sh
echo "\$FIRN_TENSOR \$FIRN_REPLICAS \${FIRN_SHARDED:-0} \$FIRN_PASSES" \
    >"$tmp/plan.\$FIRN_ATTEMPT.\$RANK"
if [ "\$FIRN_ATTEMPT" = 1 ]; then
    echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    exit 1
fi
[ "\$RANK" = 0 ] && curl -sf --max-time 60 --unix-socket "$socket" -X POST \
    -H "Authorization: Bearer \$FIRN_TOKEN" -H "Firn-Epoch: \$FIRN_EPOCH" \
    -H 'Content-Type: application/json' \
    --data-binary '{"step": 1, "progress": 0.5, "memory_mib": 21504}' \
    "http://firn/v1/jobs/\$FIRN_JOB/reports" >"$tmp/answered.part" &&
    mv "$tmp/answered.part" "$tmp/answered"
while [ ! -e "$tmp/end" ]; do sleep 0.05; done
END
chmod +x "$tmp/trainer"
model()
{
    echo "name: $1
run: [\"$tmp/trainer\"]
batch: 8
can: [tensor, sharded, passes]
checkpoint: {grace: 1}
model:
  name: llama-3.1-8b
  seq: 1024
  precision: bf16
  optimizer: adamw-fused
  checkpointing: layers
  loss: fused
  $2"
}
model oom "mode: full" >"$tmp/oom.yaml"
model other "lora: {rank: 16, on: all}" >"$tmp/other.yaml"
"$FIRN" submit --socket "$socket" -f "$tmp/oom.yaml" >/dev/null ||
    fail "the job was not taken"
await "there is no second attempt" [ -e "$tmp/answered" ]
cmp -s "$tmp/plan.1.0" "$tmp/plan.2.0" &&
    fail "the plan is the same: $(cat "$tmp/plan.1.0")"

api GET '/events?job=1' >"$tmp/events"
grep -Eq 'ran out of memory: predicted [0-9.]+ GiB \(at most [0-9.]+\) of 40 GiB a GPU; memory of llama-3.1-8b is now predicted 1\.[0-9]+ times as large' \
    "$tmp/events" || fail "events: $(cat "$tmp/events")"
"$FIRN" show --socket "$socket" oom >"$tmp/show"
grep -Eq '^memory per GPU: predicted [0-9.]+ GiB \(at most [0-9.]+\) of 40 GiB, seen 21.0 GiB .*predictions are times 1\.[0-9]+' \
    "$tmp/show" || fail "show: $(cat "$tmp/show")"
: >"$tmp/end"
wait_state oom succeeded

down
up --gpus 1x4:a100@40 --policy frenzy
"$FIRN" plan --socket "$socket" -f "$tmp/oom.yaml" >"$tmp/plans" ||
    fail "plan: $(cat "$tmp/plans")"
grep -q '^Memory is predicted 1[0-9][0-9] % of what the model says' \
    "$tmp/plans" || fail "plans: $(cat "$tmp/plans")"
"$FIRN" plan --socket "$socket" -f "$tmp/other.yaml" >"$tmp/plans" ||
    fail "plan: $(cat "$tmp/plans")"
grep -q '^Memory is predicted' "$tmp/plans" &&
    fail "another mode: $(cat "$tmp/plans")"
down
exit 0
