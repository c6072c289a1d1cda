#!/bin/sh
# Two fine-tuning jobs over one base that ymir merges are one set of processes,
# and both have weights and reports. A merge that does not pay is undone: both
# go on alone, from their own checkpoints. Or one waits for the other's weights.
# Jobs that differ in what processes have once (env) are never merged, and are
# told so.
. tests/lib/firnd.sh
FIRN_SOCKET=$socket
export FIRN_SOCKET
cp README.md "$tmp/one.txt"
cp HACKING.md "$tmp/two.txt"
tuned="duration: 60
workdir: $tmp
checkpoint: {grace: 10}"

# Waits for a word. Its second start is as fast as can be.
cat >"$tmp/gpt" <<END
#!/bin/sh
until [ -e "$tmp/go" ]; do sleep 0.2; done
[ "\$FIRN_EPOCH" = 1 ] || set -- "\$@" --pace 0
exec "$gpt" "\$@"
END
chmod +x "$tmp/gpt"

for_a='' for_b='' # lines of their files, beside those of both

# tune NAME TEXT MORE OPTION...: a job that fine-tunes the base on that text.
tune()
{
    name=$1 text=$2 more=$3
    shift 3
    submit "$name" 1 "$tuned
$more
finetune: {base: tiny, dataset: $text, sharing: allowed}" \
        "$tmp/gpt" --base seed:5 --text "$text" --judge 1 --batch 8 "$@"
}

# both OPTION...: a and b, held back until both are there, so that one round
# sees them, by a job that only its user can stop. Their paths are meant
# where they run.
both()
{
    rm -f "$tmp/go"
    api POST /jobs "name: block
run: [/bin/sleep, 600]
gpus: 1" >/dev/null || fail "no job"
    wait_state block running
    tune a one.txt "$for_a" "$@"
    tune b two.txt "$for_b" "$@"
    api POST /jobs/block/cancel "" >/dev/null
}

# pair OPTION...: the same, and both are trained as one.
pair()
{
    both "$@"
    wait_state a running
    wait_state b running
    api GET /jobs/b | grep -q 'trained by job' || fail "b is not trained together with a"
}

up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes
for_a="elastic: {threads: 2}"
pair --epochs 2 --samples 32
for_a=
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field a epoch)$(field b epoch)" = 11 ] || fail "not one start of each"
[ ! -e "$tmp/state/control/3/epoch-1" ] || fail "b has processes of its own"
"$FIRN" logs a >"$tmp/out" 2>&1
grep -q '^opened job 3 beside this one in ' "$tmp/out" ||
    fail "b was not opened by the pipeline switch: $(cat "$tmp/out")"
for job in 2 3; do
    ls "$tmp/state/jobs/$job/ckpt/$job"-*08.ckpt >/dev/null 2>&1 ||
        fail "job $job has no weights"
done
"$FIRN" train diff "$tmp/state/jobs/2/ckpt/"*08.ckpt \
    "$tmp/state/jobs/3/ckpt/"*08.ckpt >"$tmp/out" && fail "both are the same"
"$FIRN" train show "$tmp/state/jobs/2/ckpt/"*08.ckpt >"$tmp/out"
grep -q '^thread/1' "$tmp/out" || fail "a has not its two threads"
"$FIRN" train show "$tmp/state/jobs/3/ckpt/"*08.ckpt >"$tmp/out"
grep -q '^thread/1' "$tmp/out" && fail "b was trained by a's threads"
"$FIRN" logs b >"$tmp/out" || fail "no log of b"
grep -q 'trained by job 2 (a), whose log' "$tmp/out" ||
    fail "b's log does not say where its output is"
down
rm -rf "$tmp/state"

# A variable that only b has.
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1
for_b="env: {SEED: 1}"
both --epochs 1 --samples 32
for_b=
one_runs()
{
    is a state running || is b state running
}
await "neither runs" one_runs # which is ymir's to choose, for they are equal
runs=a other='3 (b)'
is a state running || runs=b other='2 (a)'
told="^not merged with job"
"$FIRN" show "$runs" >"$tmp/out"
grep -q "$told $other: env differs: SEED\$" "$tmp/out" ||
    fail "$runs is not told that it differs from job $other"
waits=b other='2 (a)'
[ "$runs" = a ] || waits=a other='3 (b)'
"$FIRN" why "$waits" >"$tmp/out" || fail "firn why fails"
grep -q "$told $other: env differs: SEED\$" "$tmp/out" ||
    fail "$waits is not told that it differs from job $other"
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
for job in 2 3; do
    [ -e "$tmp/state/control/$job/epoch-1" ] ||
        fail "job $job had no processes of its own"
done
[ "$(events | grep -c 'trained by')" = 0 ] || fail "they were merged"
down
rm -rf "$tmp/state"

[ -z "${FIRN_QUICK:-}" ] || exit 0 # a checker has seen the way there

# Trained for a fixed number of epochs, no job gains from the other: the guard
# parts them once both have reported two. Killed before that, the scheduler
# knows who rides with whom.
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1
pair --epochs 16 --samples 16 --pace 400
down KILL
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field a epoch)$(field b epoch)" != 11 ] || fail "they were never parted"
for job in 2 3; do
    ls "$tmp/state/jobs/$job/ckpt/$job"-*32.ckpt >/dev/null 2>&1 ||
        fail "job $job was not trained to its end"
done
down
rm -rf "$tmp/state"

up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes --set ymir.interval=1 \
    --set ymir.spatial=no
rm "$tmp/go"
tune a one.txt "" --epochs 3 --samples 32
wait_state a running
tune b two.txt "" --epochs 1 --samples 32
wait_why b 'policy ymir: waits for the weights of a: '
down # no further round, in which b might be decided otherwise
up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes \
    --set ymir.interval=1000000 --set ymir.spatial=no
touch "$tmp/go"
wait_state b succeeded
grep -q 'begins with the weights of job 1' "$tmp/state/jobs/2/log" ||
    fail "b began with the base"
down
exit 0
