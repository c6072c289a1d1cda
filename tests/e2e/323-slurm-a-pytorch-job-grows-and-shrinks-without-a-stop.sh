#!/bin/sh
# On Slurm an elastic PyTorch job grows onto a second node, whose process joins over
# TCP while the job trains, and shrinks when another job comes, in one attempt. Its
# gradients go through gloo; in soak a second job's go through firn's own group. The
# weights equal those of a run that was never resized. Skipped where PyTorch is not
# there.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "nothing of it is under a checker"
. tests/lib/torchjob.sh
"$python" -c 'import torch.distributed' 2>/dev/null ||
    skip "PyTorch was built without torch.distributed"

# Ends when it is told to.
cat >"$tmp/other" <<END
#!/bin/sh
until [ -e "$tmp/gone" ]; do sleep 0.05; done
END
chmod +x "$tmp/other"
torch_alone --steps 600 --through memory

# resized JOB N: do its events tell of N resizes?
resized()
{
    [ "$("$FIRN" events --socket "$socket" -j "$1" |
        grep -c "resized without a stop")" -ge "$2" ]
}

# nodes N JOB-ID: does Slurm run N jobs for its attempt 1?
nodes()
{
    [ "$(timeout 240 squeue -h -t R -o '%N %j' |
        grep -c " firn:[0-9]*:$2:1")" = "$1" ]
}

# cycle JOB THROUGH: it grows, shrinks, and ends with the right weights.
cycle()
{
    rm -f "$tmp/fast" "$tmp/gone"
    api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
    submit "$1" 1..2 "elastic: {threads: 2}
checkpoint: {grace: 30, interval: 60}
freeze: {rule: off}" "$torchjob" --steps 600 --pace 0.3 --through "$2"
    await "$2: it does not say that processes can join" says "/jobs/$1" '"join"'
    api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
    await "$2: no event tells of the growth" resized "$1" 1
    nodes 2 "$(field "$1" id)" || fail "$2: it is not on two nodes: $(squeue)"
    submit "other-$2" 1 "" "$tmp/other"
    await "$2: no event tells of the shrinking" resized "$1" 2
    wait_state "other-$2" running
    [ "$(field "$1" epoch)" = 1 ] ||
        fail "$2: it was restarted: $(api GET "/jobs/$1")"
    touch "$tmp/fast" "$tmp/gone"
    wait_state "$1" succeeded
    api GET "/jobs/$1/logs" >"$tmp/logs"
    torch_same "$tmp/logs"
}

up --gpus 2x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0 --set slurm.poll=0.1
cycle gloo distributed
[ -z "${FIRN_SOAK:-}" ] || cycle own memory
down
exit 0
