#!/bin/sh
# A job of two GPUs at most grows when its neighbour ends, without a restart, under
# each policy that resizes jobs: firn in the check, and easyscale, pollux and sia
# in soak (icefrog: 212).
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.02; done
END
chmod +x "$tmp/other"
# resized: has an event told of the resize and its pause?
resized()
{
    "$FIRN" events --socket "$socket" -j job |
        grep -q "resized without a stop: ready in .* s, paused for .* s"
}
# grow POLICY OPTION...
grow()
{
    policy=$1
    shift
    rm -rf "$tmp/state" "$tmp/gone"
    up --gpus 1x2:v100@16 --policy "$policy" "$@"
    submit first 1 "" "$tmp/other"
    wait_state first running
    submit job 1..2 "elastic: {threads: 4}
checkpoint: {grace: 10, interval: 1}
duration: 600
freeze: {rule: off}" "$cnn" --threads 4 --batch 16 --epochs 20 --samples 128 \
        --judge 0 --pace 200
    wait_state job running
    await "$policy: no process can join" says /jobs/job '"join"'
    touch "$tmp/gone"
    await "$policy: no event tells of the growth" resized
    [ "$(field job epoch)" = 1 ] || fail "$policy: it was restarted to grow"
    api POST /jobs/job/cancel "" >/dev/null || fail "$policy: not cancelled"
    down
}

grow firn
[ -n "${FIRN_SOAK:-}" ] || exit 0
grow easyscale --set easyscale.interval=1
grow pollux --set pollux.interval=1 --set pollux.restart=0
grow sia --set sia.interval=1
exit 0
