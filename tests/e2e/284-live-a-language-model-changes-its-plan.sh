#!/bin/sh
# A job file with a language model and no number of GPUs, under frenzy: the
# scheduler makes a plan (several GPUs a layer), the example trainer applies
# it, is stopped, gets another plan (1 GPU) and goes on from its checkpoint with
# the losses of a run that was never stopped. Skipped without PyTorch 2.6.
. tests/lib/firnd.sh
patience=2000 # seven processes import PyTorch, perhaps on two busy cores
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=${FIRN%/firn}/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.metadata as m
version = tuple(int(n) for n in m.version("torch").split(".")[:2])
sys.exit(version < (2, 6))' 2>/dev/null || skip "there is no PyTorch 2.6 or later"

cat >"$tmp/train" <<END
#!/bin/sh
export FIRN_TRAIN_LIB="$lib" PYTHONPATH="$PWD/python" OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE=1 TORCHINDUCTOR_CACHE_DIR="$tmp/inductor"
exec "$python" "$PWD/examples/python/llm_parallel.py" --text "$PWD/README.md" \
    --steps 4 --lr 0.01 "\$@"
END
chmod +x "$tmp/train"

# need T D: MiB that the plan needs on each GPU, which is what frenzy counts.
need()
{
    "$FIRN" memory --hidden 64 --layers 2 --heads 4 --vocab 8192 --seq 64 \
        --precision fp32 --attention eager --tp "$1" --dp "$2" \
        --micro-batch $((8 / $2)) --output json |
        sed -n 's/.*"device_mib": *\([0-9.]*\).*/\1/p'
}

# A GPU of n0 holds half of each layer with half of the batch, and not a whole
# layer with a quarter of the batch; that of n1 holds all.
gib=$(echo "$(need 2 2) $(need 1 4)" | awk 'NF == 2 && $1 < $2 {
    printf "%.6f", ($1 + $2) / 2048 }')
[ -n "$gib" ] || fail "memory: $(need 2 2), $(need 1 4)"
up --gpus "1x4:v100@$gib,1x1:a100@16" --policy frenzy --set frenzy.memory=ours
api POST /nodes/n1/drain >/dev/null || fail "n1 is not drained"
# The first attempt waits after step 2 until it is asked to stop.
api POST /jobs "name: llm
run: [\"$tmp/train\", \"--wait-at\", \"2\"]
batch: 8
checkpoint: {grace: 300}
model: {hidden: 64, layers: 2, heads: 4, vocab: 8192, seq: 64, precision: fp32}" \
    >/dev/null || fail "the job was not taken"
FIRN_PRECISION=fp32 "$tmp/train" --hidden 64 --layers 2 --heads 4 --vocab 8192 \
    --seq 64 --batch 8 >"$tmp/alone" 2>&1 || fail "alone: $(cat "$tmp/alone")"
# trained: step 2 is done, unless the job ended.
trained()
{
    says /jobs/llm/logs "step 2 " && return
    ! is llm state failed || fail "$(api GET /jobs/llm/logs)"
    return 1
}
await "step 2 is not taken" trained
api POST /nodes/n1/undrain >/dev/null || fail "n1 stays drained"
api POST /nodes/n0/drain >/dev/null || fail "n0 is not drained"
wait_state llm succeeded
api GET /jobs/llm/logs >"$tmp/log"
down
grep -q '^plan t=[24] d=[12]: [0-9]* parameters .* from step 0$' "$tmp/log" ||
    fail "no split: $(cat "$tmp/log")"
grep -q '^plan t=1 d=1: [0-9]* parameters .* from step 2$' "$tmp/log" ||
    fail "no second plan: $(cat "$tmp/log")"
for file in log alone; do
    grep '^step ' "$tmp/$file" >"$tmp/$file.steps"
done
paste -d ' ' "$tmp/log.steps" "$tmp/alone.steps" | awk '
    $2 != NR || $2 != $6 || ($4 - $8) ^ 2 > 1e-6 { bad = 1; print }
    END { exit bad || NR != 4 }' >"$tmp/differ" ||
    fail "losses differ: $(cat "$tmp/log" "$tmp/alone" "$tmp/differ")"
exit 0
