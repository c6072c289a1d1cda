#!/bin/sh
# An elastic job grows when its neighbour ends and shrinks when another comes,
# in one attempt: processes join and leave while it trains. Its last weights
# equal those of an undisturbed run, and its events tell the pause.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
up --gpus 1x2:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
elastic="elastic: {threads: 4}
checkpoint: {grace: 10}
freeze: {rule: off}"
small="--threads 4 --batch 16 --epochs 20 --samples 128 --judge 0"

# Trains slowly until it is told otherwise.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 100
exec "$cnn" "\$@"
END
# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/\$1" ]; do sleep 0.02; done
END
chmod +x "$tmp/cnn" "$tmp/other"

# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
submit first 1 "" "$tmp/other" gone
wait_state first running
# shellcheck disable=SC2086 # words
submit job 1..2 "$elastic" "$tmp/cnn" $small
wait_state job running
wait_field job gpus 'n0\[?\]'
touch "$tmp/gone" # room for two
wait_field job gpus 'n0\[0-1\]'
# told N: have N resizes been told of?
told()
{
    n=$("$FIRN" events --socket "$socket" -j job |
        grep -c "resized without a stop")
    [ "$n" -ge "$1" ]
}
await "no event tells of the growth" told 1
[ "$(field job epoch)" = 1 ] || fail "it was restarted to grow"
submit second 1 "" "$tmp/other" too # and for one
wait_state second running
await "no event tells of the shrinking" told 2
[ "$(field job epoch)" = 1 ] || fail "it was restarted to shrink"
touch "$tmp/too"
wait_state job succeeded
[ "$(field job epoch)" = 1 ] || fail "$(field job epoch) attempts, not one"

mkdir "$tmp/job" && cp "$tmp"/state/jobs/2/ckpt/*.ckpt "$tmp/job/"
"$FIRN" train diff --only weights,optimizer "$(newest whole)" \
    "$(newest job)" >"$tmp/out" || fail "the weights or the optimiser differ"
down
exit 0
