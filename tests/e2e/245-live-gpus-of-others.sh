#!/bin/sh
# 245-live-gpus-of-others.sh - GPUs of the driver that foreign processes use: planned
# around, shown, and given out again when they are free. The driver's library
# is made up and names the processes that a file names.
. tests/lib/firnd.sh
only local "it is about the driver of this host"
"$FIRN" help | grep -q '^  submit ' || skip "firn was built without its client"
fake=$(cd "$FIRN_BUILD/tests/fake" 2>/dev/null && pwd)
[ -n "$fake" ] || skip "the made-up driver is not built"
FIRN_SOCKET=$socket
FAKE_NVML=$tmp/gpus
export FIRN_SOCKET FAKE_NVML

# gpus PIDS PIDS: who is at work on the two GPUs.
gpus()
{
    printf '15 Tesla T4: %s\n15 Tesla T4: %s\n' "$1" "$2" >"$tmp/gpus.new"
    mv "$tmp/gpus.new" "$tmp/gpus"
}

# told TEXT COMMAND...: does its output have the text?
told()
{
    text=$1
    shift
    run 0 "$@"
    grep -qF -e "$text" "$tmp/out"
}

# await_told TEXT COMMAND...: until it has.
await_told()
{
    await "firn does not say '$1'" told "$@"
}

sleep 3600 &
other=$!
trap 'kill "$other" 2>/dev/null; cleanup' EXIT
gpus "$other" ''
LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
up --policy fifo --set local.others-s=0.2
await_told 'n0    up     t4       2     1        1' nodes
says /nodes '"outside_gpus": [0]' || fail "which GPU? $(api GET /nodes)"

# The other GPU is given out; a job that needs both waits, and knows for whom.
run 0 submit --name one -- sh -c 'echo $$ >"$1"; sleep 3600' x "$tmp/one"
wait_state one running
run 0 show one
out_has 'n0[1]'
await "it does not say who it is" [ -s "$tmp/one" ]
run 0 submit --name both --gpus 2 -- sleep 3600
await_told 'waits for 2 GPUs; 0 free, 1 used by processes outside of firn' why both
out_has 'starts when processes outside of firn leave enough GPUs'

# Each GPU is measured by itself, held or not.
printf '15/4 30%% Tesla T4: %s\n15/9.5 80%% Tesla T4: %s\n' "$other" "$(cat "$tmp/one")" \
    >"$tmp/gpus.new"
mv "$tmp/gpus.new" "$tmp/gpus"
for line in 'utilisation_ratio{node="n0",gpu="0",type="t4"} 0.3' \
    'utilisation_ratio{node="n0",gpu="1",type="t4"} 0.8' \
    'memory_gib{node="n0",gpu="0",type="t4"} 4' \
    'memory_gib{node="n0",gpu="1",type="t4"} 9.5' \
    'held{node="n0",gpu="0",type="t4"} 0' 'held{node="n0",gpu="1",type="t4"} 1'; do
    await "no firn_gpu_$line: $(api GET /metrics | grep firn_gpu_)" \
        says /metrics "firn_gpu_$line"
done
says /metrics 'firn_type_utilisation_ratio{type="t4"} 0.8' || fail "of held GPUs"

# A process of the job itself is not foreign.
gpus "$other" "$(cat "$tmp/one")"
sleep 0.5
await_told 'n0    up     t4       2     0        1' nodes

# All is ours when they have left, and a stranger beside a job is only shown.
gpus '' ''
run 0 cancel one
wait_state both running
gpus "$other" ''
await_told 'n0    up     t4       2     0        1' nodes
[ "$(field both state)" = running ] || fail "a stranger stopped a job"
run 0 cancel both
down
exit 0
