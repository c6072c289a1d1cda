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
for word in weights gradients optimizer activations overhead low high MARP \
    1557611200; do
    out_has "$word"
done
run 0 memory --model gpt2 --seq 1024 --micro-batch 8 --precision amp \
    --attention sdpa -o json
for key in low_mib expected_mib high_mib breakdown marp_mib plans; do
    out_has "\"$key\":"
done
# 14292 MiB were reserved on an H200; the context comes on top.
holds "$(number low_mib) < $(number expected_mib)"
holds "$(number expected_mib) < $(number high_mib)"
holds "$(number reserved_mib) > 13500 && $(number reserved_mib) < 15100"
holds "($(number weights_mib)) + ($(number gradients_mib)) + \
    ($(number optimizer_mib)) + ($(number activations_mib)) + \
    ($(number overhead_mib)) - ($(number expected_mib)) < 0.001"
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
