#!/bin/sh
# Jobs of the inbox with a --constraint go to nodes that have the features; one
# that no node fulfils is left alone. Slurm keeps the true exit status of firn's
# jobs, attempts ask for the partition's time limit, and a suspended job is told
# from a running one.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
cat >"$tmp/more" <<END
PartitionName=gated Nodes=ALL MaxTime=7 State=UP
END
slurm_up 1x2:v100@16,2x2:a100@40 --more "$tmp/more"
timeout 240 scontrol update NodeName=n2 AvailableFeatures=a100,ib \
    ActiveFeatures=a100,ib || fail "no feature"
up --policy fifo --set slurm.poll=0.1 --set slurm.inbox=inbox \
    --set slurm.partition=gated

# send NAME OPTION...: a job for the inbox.
send()
{
    name=$1
    shift
    timeout 240 sbatch --parsable -p inbox -J "$name" -o /dev/null "$@" \
        --wrap 'exec sleep 3000' || fail "sbatch failed"
}
send fast --gres=gpu:1 -C ib >/dev/null
wait_state fast running
[ "$(field fast gpus)" = "n2[0]" ] || fail "fast is on $(field fast gpus)"
both=$(send both --gres=gpu:1 -C 'a100&v100')
await "not said: features" grep -q "job $both of the inbox is left alone.*constr" \
    "$tmp/err"

submit bad 1 "" false
wait_state bad failed
saw_exit()
{
    id=$(timeout 240 squeue -h -t all -o '%i %j' | sed -n 's/ firn:[0-9]*:2:1$//p')
    timeout 240 scontrol show job "$id" >"$tmp/out" && grep -q 'ExitCode=1:0' "$tmp/out"
}
await "Slurm has another exit status" saw_exit
grep -q 'JobState=FAILED' "$tmp/out" || fail "not FAILED in Slurm"
grep -q 'TimeLimit=00:07:00' "$tmp/out" || fail "another time limit"

not_suspended()
{
    ! says /jobs/stays/why 'scontrol resume'
}
submit stays 1 "" sleep 3000
wait_state stays running
id=$(timeout 240 squeue -h -t R -o '%i %j' | sed -n 's/ firn:.*//p')
timeout 240 scontrol suspend "$id" || fail "not suspended"
wait_why stays "scontrol resume $id"
timeout 240 scontrol resume "$id" || fail "not resumed"
await "still suspended" not_suspended
down
exit 0
