#!/bin/sh
# A Slurm with gres/mps in place of shards. Nodes of one GPU: two jobs share two
# of them, each with half of both, and are told their parts. Nodes of two: Slurm
# gives out one of them at a time, so sharing is refused, and `why` says so.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x1:v100@16 --mps
up --policy sjf-ffs
cat >"$tmp/tell" <<END
#!/bin/sh
echo "\$CUDA_VISIBLE_DEVICES \$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" \
    "\$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT \$FIRN_MEM_SHARE" >"$tmp/saw.\$1.\$RANK"
until [ -e "$tmp/go" ]; do
    sleep 0.2
done
END
chmod +x "$tmp/tell"
submit one 2 "$sharing" "$tmp/tell" one
submit two 2 "$sharing" "$tmp/tell" two
for name in one two; do
    for rank in 0 1; do
        file=$tmp/saw.$name.$rank
        await "$name, process $rank, says nothing" [ -s "$file" ]
        grep -qx '0 50 0=[0-9]*M 0.5' "$file" || fail "$name: $(cat "$file")"
    done
done
touch "$tmp/go"
wait_state one succeeded
wait_state two succeeded
down
rm -rf "$tmp/state" "$tmp/go"
tools/slurm-bed down --dir "$bed"
rm -rf "$bed"
bed=

slurm_up 1x2:v100@16 --mps
up --policy sjf-ffs
submit one 2 "$sharing" "$tmp/tell" one
submit two 2 "$sharing" "$tmp/tell" two
wait_state one running
wait_why two 'gres/mps of one GPU of a node at a time, and node n0 has 2'
[ "$(field two state)" = pending ] || fail "two is $(field two state)"
touch "$tmp/go"
wait_state two succeeded
down
exit 0
