#!/bin/sh
# A Slurm whose GPUs have one type and no shards: jobs run by number of GPUs, on
# as many as they asked for and never on those of another; sharing is refused,
# and `why` says for what reason.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 1x3:v100@16 --plain --shards 0
up --policy sjf-ffs
cat >"$tmp/tell" <<END
#!/bin/sh
echo "\$CUDA_VISIBLE_DEVICES" >"$tmp/saw-\$1.\$RANK"
while [ ! -e "$tmp/go" ]; do
    sleep 0.2
done
END
chmod +x "$tmp/tell"
submit two 2 "" "$tmp/tell" two
submit one 1 "$sharing" "$tmp/tell" one
submit other 1 "$sharing" "$tmp/tell" other
wait_state two running
wait_state one running
wait_why other 'do not each have a type'
api GET /jobs/other/why >"$tmp/out"
out_has 'shar'
[ "$(field other state)" = pending ] || fail "other is $(field other state)"
saw_all()
{
    [ "$(cat "$tmp"/saw-two.1 "$tmp"/saw-one.0 2>/dev/null | tr ',' '\n' |
        sort -u | xargs)" = "0 1 2" ]
}
await "they did not see each GPU once" saw_all
touch "$tmp/go"
wait_state two succeeded
wait_state one succeeded
wait_state other succeeded
down
exit 0
