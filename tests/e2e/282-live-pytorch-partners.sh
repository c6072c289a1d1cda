#!/bin/sh
# Two PyTorch fine-tuning jobs over one backbone that ymir merges are trained by
# one set of processes; each has its own metric, reports and checkpoint, and both
# end with their own results. When the metric of one falls, the guard parts them,
# and each goes on alone from its own checkpoint. A job begins with the weights
# of an ended one. Skipped where PyTorch is missing.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
only local "the programs are on this host"
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=${FIRN%/firn}/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.util as u
sys.exit(not all(u.find_spec(m) for m in ("torch", "numpy")))' 2>/dev/null ||
    skip "PyTorch is not installed"

# The example; with --falls its metric gets worse after every epoch.
cat >"$tmp/falling.py" <<'END'
import sys

import tune


def make(words):
    work = tune.make([word for word in words if word != "--falls"])
    if "--falls" in words:
        values = iter(0.9 / n for n in range(1, 1000))
        work.metric = lambda model: next(values)
    return work


for job in tune.run(make):
    print(f"job {job.name}: metric {job.metric:.3f}, {job.step} steps", flush=True)
END
cat >"$tmp/tune" <<END
#!/bin/sh
export FIRN_TRAIN_LIB="$lib" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$PWD/python:$PWD/examples/python"
export TORCHINDUCTOR_CACHE_DIR="$tmp/inductor"
until [ -e "$tmp/go" ]; do sleep 0.1; done
[ "\$FIRN_ATTEMPT" = 1 ] || set -- "\$@" --pace 0
exec "$python" "$tmp/falling.py" "\$@"
END
chmod +x "$tmp/tune"

# tune NAME ANGLE OPTION...: a job that fine-tunes for stripes of that angle.
tune()
{
    name=$1 angle=$2
    shift 2
    submit "$name" 1 "duration: 60
workdir: $tmp
checkpoint: {grace: 60}
target: {metric: 0.999}
finetune: {base: stripes, dataset: angle$angle, sharing: allowed}" \
        "$tmp/tune" --angle "0.$angle" --base-steps 0 --samples 64 "$@"
}

# both OPTION...: a and b, held back by a job until one round sees both; the
# options are b's.
both()
{
    api POST /jobs "name: block
run: [/bin/sleep, 600]
gpus: 1" >/dev/null || fail "no job"
    wait_state block running
    tune a 2 --epochs 2
    tune b 3 "$@"
    api POST /jobs/block/cancel "" >/dev/null
    wait_state a running
    wait_state b running
    says /jobs/b 'trained by job' || fail "b is not trained together with a"
}

up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1
both --epochs 2
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field a epoch)$(field b epoch)" = 11 ] || fail "not one start of each"
[ ! -e "$tmp/state/control/3/epoch-1" ] || fail "b has processes of its own"
for job in 2 3; do
    [ -e "$tmp/state/jobs/$job/ckpt/$job-000000000008.ckpt" ] ||
        fail "job $job has no weights: $(cat "$tmp/state/jobs/2/log")"
    grep -q "^job $job: metric 0\..*, 8 steps\$" "$tmp/state/jobs/2/log" ||
        fail "no result of job $job: $(cat "$tmp/state/jobs/2/log")"
done
for job in a b; do
    [ -n "$(reported $job metric)" ] || fail "no metric of $job"
done
"$FIRN" train diff "$tmp/state/jobs/2/ckpt/"*08.ckpt \
    "$tmp/state/jobs/3/ckpt/"*08.ckpt >"$tmp/out" && fail "both are the same"
grep -q 'model/head.weight' "$tmp/out" || fail "the heads are the same"

# A job that waits for the weights of one that runs begins with them.
down
rm -rf "$tmp/state" "$tmp/go"
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1 \
    --set ymir.spatial=no
tune a 2 --epochs 1
wait_state a running
tune b 3 --epochs 1
wait_why b 'policy ymir: waits for the weights of a: '
touch "$tmp/go"
wait_state b succeeded
grep -q 'begins with the weights of job 1' "$tmp/state/jobs/2/log" ||
    fail "b began with the base: $(cat "$tmp/state/jobs/2/log")"

# The metric of b falls: two epochs later both are alone.
down
rm -rf "$tmp/state" "$tmp/go"
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1
both --epochs 12 --falls --pace 0.3
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field b epoch)" -gt 1 ] || fail "they were never parted: $(events)"
[ -e "$tmp/state/jobs/3/ckpt/3-000000000048.ckpt" ] ||
    fail "b was not trained to its end"
[ -e "$tmp/state/jobs/2/ckpt/2-000000000008.ckpt" ] ||
    fail "a was not trained to its end"
down
exit 0
