#!/bin/sh
# With Slurm the supervisors on the nodes ask the driver there how much the GPUs
# of a job are used; firnd shows the most of them. The driver's library is made up
# and reads its numbers from a file.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
fake=$(cd "$FIRN_BUILD/tests/fake" 2>/dev/null && pwd)
[ -n "$fake" ] || skip "the made-up driver is not built"
mkdir "$tmp/fake" && cp "$fake/libnvidia-ml.so.1" "$tmp/fake/" || fail "no copy"
printf '16/2 10%% Tesla V100:\n16/12 75%% Tesla V100:\n' >"$tmp/fake/gpus"
LD_LIBRARY_PATH=$tmp/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
without_slurm=skip
slurm_up 1x2:v100@16
up --policy fifo
cat >"$tmp/wait" <<END
#!/bin/sh
until [ -e "$tmp/go" ]; do
    sleep 0.2
done
END
chmod +x "$tmp/wait"
submit both 2 "" "$tmp/wait"
await "nothing was measured" says /jobs/both '"measured"'
# One of the two GPUs may have been asked before the other.
await "$(api GET /jobs/both)" says /jobs/both \
    '"measured": {"utilisation": 0.75, "memory_gib": 12}'
FIRN_SOCKET=$socket "$FIRN" show both >"$tmp/out" 2>&1
grep -q '^measured on its GPUs: 75 % busy, 12.0 GiB$' "$tmp/out" ||
    fail "$(cat "$tmp/out")"
touch "$tmp/go"
wait_state both succeeded
! says /jobs/both '"measured"' || fail "an ended job is measured"
down
exit 0
