#!/bin/sh
# easyscale: an elastic job on GPUs of two types has more threads on the faster;
# it changes its size while it runs, to one GPU and back to both; its last
# weights equal those of an undisturbed run.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x1:v100@16,1x1:t4@16 --policy easyscale \
    --set easyscale.interval=1 --set easyscale.again=1
# One epoch: its steps are reported by tens, so that forecasts are what they were.
small="--threads 6 --epochs 1 --samples 2048 --judge 0"

# Says how its threads are laid out, then trains: as slowly as GPUs are few, until
# it is told otherwise.
cat >"$tmp/layout" <<END
#!/bin/sh
[ "\$RANK" != 0 ] || echo "\$WORLD_SIZE \${FIRN_LAYOUT:-even}" >>"$tmp/layouts"
[ -e "$tmp/fast" ] ||
    set -- "\$@" --pace \$((600 / WORLD_SIZE)) --every 1
exec "$cnn" "\$@"
END
chmod +x "$tmp/layout"

# shellcheck disable=SC2086 # words
submit job 1..2 "elastic: {threads: 6, consistency: D2, scan: insist}
checkpoint: {grace: 10}
duration: 60" "$tmp/layout" $small
await "it takes no step" saved 1
[ "$(field job gpus)" = "n0[0] n1[0]" ] || fail "it is on $(field job gpus)"
api PATCH /jobs/job '{"gpus": 1}' >/dev/null || fail "no new bounds"
wait_field job gpus 'n?\[0\]'
wait_field job epoch 2
wait_state job running
# It is running once Slurm has started it; its program has begun a little later.
await "its second start says nothing" grep -qs '^1 ' "$tmp/layouts"
saved 1
before=$step
await "it goes no further than step $before" saved 1 "$before"
touch "$tmp/fast"
api PATCH /jobs/job '{"gpus": {"min": 1, "max": 2}}' >/dev/null || fail "no new bounds"
wait_state job succeeded
[ "$(field job epoch)" -ge 3 ] || fail "only $(field job epoch) starts"
# A v100 is twice a t4.
sed -n 1p "$tmp/layouts" | grep -qx '2 0,0,0,0,1,1' || fail "$(cat "$tmp/layouts")"
sed -n 2p "$tmp/layouts" | grep -qx '1 even' || fail "$(cat "$tmp/layouts")"
sed -n 3p "$tmp/layouts" | grep -qx '2 0,0,0,0,1,1' || fail "$(cat "$tmp/layouts")"
down

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
weights_of 1 job
same_weights whole job
exit 0
