#!/bin/sh
# An elastic PyTorch job, run by the scheduler: it reports, is made larger while
# it trains, goes on from its checkpoint, and ends with the weights of an
# undisturbed run. Skipped where the distribution's PyTorch is not there.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=${FIRN%/firn}/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.util as u
sys.exit(not all(u.find_spec(m) for m in ("torch", "numpy")))' 2>/dev/null ||
    skip "python3-torch is not installed"

cat >"$tmp/train" <<END
#!/bin/sh
export FIRN_TRAIN_LIB="$lib" PYTHONPATH="$PWD/python" OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE=1 TMPDIR="$tmp" # PyTorch keeps caches there
# Its first start takes 1.6 s for a step, and 19 for all: the second is in time.
[ "\${FIRN_EPOCH:-}" != 1 ] || set -- --pace 0.8
exec "$python" "$PWD/examples/python/cnn.py" --threads 2 --epochs 4 \
    --samples 48 --batch 8 "\$@"
END
chmod +x "$tmp/train"

up --gpus 1x2:v100@16 --policy fifo
submit job 1..1 "elastic: {threads: 2}
checkpoint: {grace: 60, interval: 1s}
can: [resize]
duration: 60" "$tmp/train" # no join (213): it is stopped and started
"$tmp/train" >"$tmp/alone" 2>&1 &
alone=$!
await "it takes no step" saved 1
api PATCH /jobs/job '{"gpus": 2}' >/dev/null || fail "no new bounds"
wait_state job succeeded
[ "$(field job epoch)" = 2 ] || fail "$(api GET /jobs/job)"
[ "$(reported job nprocs)" = 2 ] || fail "$(api GET /jobs/job)"
[ "$(reported job step)" = 12 ] || fail "$(api GET /jobs/job)"
api GET /jobs/job/logs | grep '^weights ' >"$tmp/live" || fail "no weights"
down
wait "$alone" || fail "the run alone failed: $(cat "$tmp/alone")"
grep '^weights ' "$tmp/alone" | cmp -s - "$tmp/live" ||
    fail "the weights differ: $(cat "$tmp/live")"
exit 0
