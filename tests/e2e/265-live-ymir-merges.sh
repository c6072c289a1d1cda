#!/bin/sh
# Two fine-tuning jobs over one base that ymir merges are one set of processes,
# and both have weights and reports. A merge that does not pay is undone: both
# go on alone, from their own checkpoints. Or one waits for the other's weights.
. tests/lib/firnd.sh
cp README.md "$tmp/one.txt"
cp HACKING.md "$tmp/two.txt"
tuned="duration: 60
checkpoint: {grace: 10}"

# Waits for a word. Its second start is as fast as can be.
cat >"$tmp/gpt" <<END
#!/bin/sh
until [ -e "$tmp/go" ]; do sleep 0.05; done
[ "\$FIRN_EPOCH" = 1 ] || set -- "\$@" --pace 0
exec "$gpt" "\$@"
END
chmod +x "$tmp/gpt"

# tune NAME TEXT OPTION...: a job that fine-tunes the base on that text.
tune()
{
    name=$1 text=$2
    shift 2
    submit "$name" 1 "$tuned
finetune: {base: tiny, dataset: $text, sharing: allowed}" \
        "$tmp/gpt" --base seed:5 --text "$text" --judge 1 --batch 8 "$@"
}

# pair OPTION...: a and b, held back until both are there, so that one round
# sees them, by a job that nobody but its user can stop.
pair()
{
    rm -f "$tmp/go"
    api POST /jobs "name: block
run: [/bin/sleep, 600]
gpus: 1" >/dev/null || fail "no job"
    wait_state block running
    tune a "$tmp/one.txt" "$@"
    tune b "$tmp/two.txt" "$@"
    api POST /jobs/block/cancel "" >/dev/null
    wait_state a running
    wait_state b running
    api GET /jobs/b | grep -q 'trained by job' || fail "b rides with nobody"
}

up --gpus 1x1:v100@16 --policy ymir
pair --epochs 2 --samples 32
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field a epoch)$(field b epoch)" = 11 ] || fail "not one start of each"
[ ! -e "$tmp/state/jobs/3/epoch-1" ] || fail "b has processes of its own"
for job in 2 3; do
    ls "$tmp/state/jobs/$job/ckpt/$job"-*08.ckpt >/dev/null 2>&1 ||
        fail "job $job has no weights"
done
"$FIRN" train diff "$tmp/state/jobs/2/ckpt/"*08.ckpt \
    "$tmp/state/jobs/3/ckpt/"*08.ckpt >"$tmp/out" && fail "both are the same"
down
rm -rf "$tmp/state"

[ -z "${FIRN_QUICK:-}" ] || exit 0 # a checker has seen the way there

# Trained for a fixed number of epochs, nobody gains from the other: the guard
# parts them once both have reported two. Killed before that, the scheduler
# knows who rides with whom.
up --gpus 1x1:v100@16 --policy ymir --set ymir.interval=1
pair --epochs 12 --samples 32 --pace 150
down KILL
up --gpus 1x1:v100@16 --policy ymir --set ymir.interval=1
touch "$tmp/go"
wait_state a succeeded
wait_state b succeeded
[ "$(field a epoch)$(field b epoch)" != 11 ] || fail "they were never parted"
for job in 2 3; do
    ls "$tmp/state/jobs/$job/ckpt/$job"-*48.ckpt >/dev/null 2>&1 ||
        fail "job $job was not trained to its end"
done
down
rm -rf "$tmp/state"

up --gpus 1x1:v100@16 --policy ymir --set ymir.interval=1 \
    --set ymir.spatial=no
rm "$tmp/go"
tune a "$tmp/one.txt" --epochs 3 --samples 32
wait_state a running
tune b "$tmp/two.txt" --epochs 1 --samples 32
wait_field b reason '[!n]*' # some round has seen it
touch "$tmp/go"
wait_state b succeeded
grep -q 'begins with the weights of job 1' "$tmp/state/jobs/2/log" ||
    fail "b began with the base"
down
exit 0
