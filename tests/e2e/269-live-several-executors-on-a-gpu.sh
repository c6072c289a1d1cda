#!/bin/sh
# easyscale: a job whose profile says that four processes on one GPU are faster
# than one gets four there, each with one of its threads, and its last weights
# equal those of a run in one process. A job that does not say that it can is
# run by one process.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "the Slurm engine starts one process on a GPU"
up --gpus 1x1:v100@32 --policy easyscale --set easyscale.interval=1
small="--threads 4 --batch 16 --epochs 1 --samples 128 --judge 0"

cat >"$tmp/say" <<END
#!/bin/sh
echo "\$WORLD_SIZE \$RANK \$LOCAL_RANK \$LOCAL_WORLD_SIZE \$GROUP_RANK" \
    >>"$tmp/\$FIRN_JOB"
exec "$cnn" "\$@"
END
chmod +x "$tmp/say"

# A mini-batch of 32 for each of four threads: profiles/easyscale/resnet50.txt
# has rows of two to seven processes for it, and four are the fastest.
job="app: resnet50
batch: 128
elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}
duration: 60"
# shellcheck disable=SC2086 # words
submit four 1..1 "can: [resize, passes, executors]
$job" "$tmp/say" $small
wait_state four succeeded
sort "$tmp/1" | tr '\n' ';' >"$tmp/out"
grep -qx '4 0 0 1 0;4 1 0 1 1;4 2 0 1 2;4 3 0 1 3;' "$tmp/out" ||
    fail "four: $(cat "$tmp/out")"
# shellcheck disable=SC2086 # words
submit one 1..1 "can: [resize, passes]
$job" "$tmp/say" $small
wait_state one succeeded
grep -qx '1 0 0 1 0' "$tmp/2" || fail "one: $(cat "$tmp/2")"
down
weights_of 1 four
weights_of 2 one
same_weights four one
exit 0
