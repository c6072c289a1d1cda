#!/bin/sh
# A job file with the config.json or the name of a model and no number of GPUs,
# under frenzy: the plan follows from the predicted memory and from what the
# trainer can do (ZeRO 1 to 3, activations computed again, an optimizer on the
# host), its processes are told, and firn plan lists the plans with
# their memory and the nearest that do not fit. A bad config.json is refused by
# the name of its key.
. tests/lib/firnd.sh
up --gpus 1x4:a100@40 --policy frenzy

# Writes down what it is told.
cat >"$tmp/plan" <<END
#!/bin/sh
echo "\$FIRN_TENSOR \$FIRN_REPLICAS \${FIRN_SHARDED:-no} \${FIRN_ZERO:-no}" \
    "\$FIRN_BATCH \${FIRN_PASSES:-no} \$FIRN_PRECISION" \
    "\${FIRN_RECOMPUTE:-no} \${FIRN_OFFLOAD:-no}" >"$tmp/\$FIRN_JOB.\$RANK"
[ -z "\$FIRN_CONFIG" ] || echo "\$FIRN_CONFIG" >"$tmp/config.told"
END
chmod +x "$tmp/plan"
mkdir "$tmp/models"
cat >"$tmp/models/config.json" <<'END'
{
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "_note": "it's 8B"
}
END
# job NAME CAN: 8B in bf16, which one GPU of 40 GiB does not hold.
job()
{
    cat >"$tmp/models/$1.yaml" <<END
name: $1
run: ["$tmp/plan"]
can: [$2]
model:
  config: config.json
  precision: bf16
  optimizer: adamw-fused
  checkpointing: layers
  loss: fused
  seq: 1024
  batch: 8
END
}
job sharded "sharded, passes"
job split "tensor, passes"
job none "none"
job stages "zero"
# The user leaves the checkpointing open, and one GPU holds neither the
# activations nor the optimizer.
job saves "recompute, offload"
sed -i '/checkpointing/d; s/batch: 8/batch: 4/' "$tmp/models/saves.yaml"
echo "gpus: 1" >>"$tmp/models/saves.yaml"

firn_at()
{
    verb=$1
    shift
    "$FIRN" "$verb" --socket "$socket" "$@" 2>&1
}
firn_at plan -f "$tmp/models/sharded.yaml" >"$tmp/plans" ||
    fail "plan: $(cat "$tmp/plans")"
grep -q '^ *4  a100  1 x 4 *3  .* GiB  40.0 GiB ' "$tmp/plans" &&
    grep -q 'Nearest plans that do not fit' "$tmp/plans" ||
    fail "plans: $(cat "$tmp/plans")"
firn_at plan "$tmp/models/none.yaml" >"$tmp/plans" ||
    fail "plan of none: $(cat "$tmp/plans")"
grep -q '^0 plans fit' "$tmp/plans" &&
    grep -q 'moments, [0-9.]* GiB' "$tmp/plans" ||
    fail "plans of none: $(cat "$tmp/plans")"

firn_at plan -f "$tmp/models/saves.yaml" >"$tmp/plans" ||
    fail "plan of saves: $(cat "$tmp/plans")"
grep -q '^ *1  a100  1 x 1 *0  4 x 1  *recompute, offload ' "$tmp/plans" ||
    fail "plans of saves: $(cat "$tmp/plans")"

for name in sharded split none stages saves; do
    firn_at submit -f "$tmp/models/$name.yaml" >"$tmp/out" ||
        fail "$name: $(cat "$tmp/out")"
done
wait_state sharded succeeded
wait_state split succeeded
wait_field none reason never
read -r tensor replicas sharded zero batch passes precision rest <"$tmp/1.0"
[ "$tensor $sharded $zero $precision" = "1 1 3 bf16" ] &&
    [ "$replicas" -gt 1 ] && [ -e "$tmp/1.$((replicas - 1))" ] ||
    fail "sharded: $(cat "$tmp/1.0")"
[ $((batch % (replicas * passes))) = 0 ] && [ "$batch" = 8 ] ||
    fail "the batch is not kept: $(cat "$tmp/1.0")"
read -r tensor replicas sharded zero batch passes precision rest <"$tmp/2.0"
[ "$sharded $zero" = "no no" ] && [ "$tensor" -gt 1 ] ||
    fail "split: $(cat "$tmp/2.0")"
wait_state stages succeeded
wait_state saves succeeded
read -r tensor replicas sharded zero batch passes precision again host \
    <"$tmp/4.0"
[ "$tensor $replicas $sharded $zero $again $host" = "1 4 no 2 no no" ] ||
    fail "stages: $(cat "$tmp/4.0")"
read -r tensor replicas sharded zero batch passes precision again host \
    <"$tmp/5.0"
[ "$sharded $zero $again $host" = "no no 1 1" ] ||
    fail "saves: $(cat "$tmp/5.0")"
grep -q '"hidden_size":4096.*"it.s 8B"' "$tmp/config.told" ||
    fail "config: $(cat "$tmp/config.told")"

# Nothing of a bad file reaches firnd.
sed 's/"hidden_size": 4096/"hidden_size": -4/' "$tmp/models/config.json" \
    >"$tmp/config.json"
cp "$tmp/models/sharded.yaml" "$tmp/bad.yaml"
firn_at submit -f "$tmp/bad.yaml" >"$tmp/out" && fail "a bad config was taken"
grep -q 'config.json: .*hidden_size.* -4' "$tmp/out" ||
    fail "bad config: $(cat "$tmp/out")"
down
exit 0
