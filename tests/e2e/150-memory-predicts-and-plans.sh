#!/bin/sh
# 150-memory-predicts-and-plans.sh - firn memory: breakdown, interval, plans.
. tests/lib/e2e.sh

# number KEY: the first value of that key in the JSON.
number()
{
    grep -o "\"$1\":[0-9.e+-]*" "$tmp/out" | head -1 | cut -d : -f 2
}

# holds EXPRESSION: of awk.
holds()
{
    awk "BEGIN { exit !($1) }" || fail "not so: $1"
}

run 0 memory --model gpt2-xl
for word in weights casts moments norms attention mlp logits workspace low \
    high MARP 1557611200; do
    out_has "$word"
done
run 0 memory --model gpt2 --seq 1024 --micro-batch 8 --precision amp \
    --attention sdpa --keep-gradients -o json
for key in low_mib expected_mib high_mib breakdown marp_mib plans; do
    out_has "\"$key\":"
done
# 14292 MiB were reserved on an H200 with gradients kept; the context comes on
# top.
holds "$(number low_mib) < $(number expected_mib)"
holds "$(number expected_mib) < $(number high_mib)"
holds "$(number reserved_mib) > 13500 && $(number reserved_mib) < 15100"
grep -o '"breakdown":{[^}]*}' "$tmp/out" | tr ',{}' '\n\n\n' |
    awk -F: -v want="$(number expected_mib)" '/_mib/ { sum += $2 }
    END { exit !(sum - want < 0.001 && want - sum < 0.001) }' ||
    fail "the terms do not add up"
run 0 memory --model gpt2 -b 8 -o json
sdpa=$(number expected_mib)
run 0 memory --model gpt2 -b 8 --attention eager -o json
holds "$(number expected_mib) > $sdpa"
run 0 memory --model gpt2 -b 8 --checkpointing -o json
holds "$(number expected_mib) < $sdpa"
run 0 memory --hidden 768 --layers 12 --heads 12 --vocab 50257 --seq 1024 \
    --micro-batch 8 -o json
[ "$(number expected_mib)" = "$sdpa" ] || fail "numbers and name differ"

# Plans: every one within the memory of its GPUs, fewer than asked for.
run 0 memory --model llama-7b --precision bf16 --batch 16 \
    --cluster 2x8:a100@80,3x8:v100@32 --plans 3
out_has "plans fit; the best:"
[ "$(grep -c '^a100 \|^v100 ' "$tmp/out")" -eq 3 ] || fail "not three plans"
run 0 memory --model llama-65b --cluster 1x1:t4
out_has "0 plans fit"
run 0 memory --model llama-3-8b --precision bf16 --lora 16 --lora-on q,k,v,o
out_has "13631488 of adapters trained"
run 0 memory --model list
out_has "llama-3-70b"
out_has "qwen3-30b-a3b"

# Networks of convolutions by name, and anything by two measured peaks.
run 0 memory --model resnet50 -b 32 --precision fp32 --optimizer sgd
out_has "25557032 parameters"
out_has "activations"
run 0 memory --model unet-sd15 -b 4 -o json
out_has '"is_measured":false'
run 2 memory --model resnet50 --image 100
err_has "multiple of 32"
run 0 memory --measured 16=2000,64=6800 -b 32 -o json
[ "$(number expected_mib)" = 3600 ] || fail "not on the line"
run 2 memory --measured 16=2000 -b 32
err_has "two measured peaks"

# A config.json: exact parameters, a GPU, and changes that make it fit.
run 0 memory --config bench/gpu/configs/gemma-2b.json --gpu h100@80 -b 2
out_has "2506172416 parameters"
out_has "the largest micro-batch that fits"
run 0 memory --model llama-3.1-8b --seq 2048 -b 2 --gpu h100@80
out_has "changes that make it fit"
[ "$(grep -c '^--' "$tmp/out")" -eq 3 ] || fail "not three changes"
# 70B with LoRA on 8 A100 of 80: 27.6 GiB were measured by torchtune.
run 0 memory --model llama-3.1-70b --lora 8 --lora-precision bf16 --seq 2048 \
    -b 2 --checkpointing --loss chunked --zero 3 --dp 8 -o json
holds "$(number expected_mib) > 0.85 * 27.6 * 1024"
holds "$(number expected_mib) < 1.15 * 27.6 * 1024"
run 0 memory --model llama-3-70b --precision bf16 --lora 16 --batch 8 \
    --checkpointing --cluster 1x8:a100@80
out_has "plans fit"
if grep -q "^0 plans fit" "$tmp/out"; then
    fail "70B with LoRA does not fit 8 A100"
fi
echo '{"model_type":"llama","hidden_size":-1}' >"$tmp/bad.json"
run 2 memory --config "$tmp/bad.json"
err_has "hidden_size is -1"
echo '{"model_type":"mamba"}' >"$tmp/bad.json"
run 2 memory --config "$tmp/bad.json"
err_has "'mamba' is not known"
run 2 memory --config "$tmp/none.json"
run 2 memory --model gpt2 --config "$tmp/bad.json"

run 2 memory --model gpt2-xll
err_has "did you mean 'gpt2-xl'"
run 2 memory
err_has "use --model NAME, or --hidden"
run 2 memory --model gpt2-xl --tp 2
err_has "25 heads"
run 2 memory --model gpt2 --precision fp64
err_has "not one of fp32"
run 2 memory --model gpt2 --zero 4
run 2 memory --model gpt2 --lora 4 --lora-on q,x
run 1 memory --model gpt2 --cluster no-such-cluster
exit 0
