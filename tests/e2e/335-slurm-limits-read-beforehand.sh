#!/bin/sh
# Limits that Slurm has are known before a job is pinned somewhere: an elastic
# job gets as many GPUs as its account has left (GrpTRES) at its first start,
# the next job waits with that reason and without a Slurm job, and starts when
# the limit is raised; an account that the partition does not allow is named, and
# AllowAccounts is read again while firnd runs. Limits of a QOS, named by the job or
# the default of its user, are known the same way, and no attempt asks for more
# time than MaxWall.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
PATH=$PATH:/usr/sbin
for tool in slurmdbd mariadbd sacctmgr; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
[ "$(id -u)" = 0 ] || skip "the accounts are root's"
slurm_up 2x2:v100@16 --accounts
acct() { timeout 240 sacctmgr -Q -i "$@" >"$tmp/out" || fail "sacctmgr $*"; }
acct add account ml cluster=bed GrpTRES=gres/gpu=3
acct add account bio cluster=bed
acct add user root account=bio
acct add user root account=ml
acct modify user root set DefaultAccount=ml
up --policy icefrog --set slurm.poll=0.1

api POST /jobs 'name: wide
run: [sleep, "3000"]
gpus: 1..4
checkpoint: {grace: 1}' >/dev/null || fail "wide was not taken"
wait_state wide running
[ "$(field wide epoch)" = 1 ] || fail "wide was started $(field wide epoch) times"
n=$(timeout 240 squeue -h -t R -o %b%D | tr -d '\n')
used=$(timeout 240 scontrol -o show assoc_mgr accounts=ml flags=assoc |
    sed -n 's/.*UserName= .* GrpTRES=[^ ]*gres\/gpu=3(\([0-9]*\)).*/\1/p')
[ "${used:-0}" -gt 0 ] && [ "$used" -le 3 ] || fail "Slurm counts $used GPUs: $n"
if [ "$used" = 3 ]; then
    submit next 1 "" sleep 3000
    wait_why next "limits of ml leave it 0 GPUs"
    [ "$(timeout 240 squeue -h -r -t PD -o %i | wc -l)" = 0 ] ||
        fail "a job is pending in Slurm: $(timeout 240 squeue)"
    acct modify account ml set GrpTRES=gres/gpu=4
    wait_state next running
    api POST /jobs/next/cancel "" >/dev/null || fail "not cancelled"
    wait_state next cancelled
fi

# The account of a job, and the partition's list, which changes.
timeout 240 scontrol update PartitionName=main AllowAccounts=ml || fail "not set"
submit other 1 "slurm: {account: bio}" sleep 3000
wait_why other "does not allow account bio"
timeout 240 scontrol update PartitionName=main AllowAccounts=ALL || fail "not set"
wait_state other running
[ "$(timeout 240 squeue -h -t R -A bio -o %a)" = bio ] || fail "another account"
api POST /jobs/other/cancel "" >/dev/null || fail "not cancelled"
api POST /jobs/wide/cancel "" >/dev/null || fail "not cancelled"
wait_state other cancelled
wait_state wide cancelled

# A QOS: two GPUs for each user, and two minutes.
down
acct add qos small set MaxTRESPerUser=gres/gpu=2 MaxWall=2
acct modify user root account=bio set QOS=normal,small DefaultQOS=small
timeout 240 scontrol update PartitionName=main MaxTime=60 || fail "no MaxTime"
knows_qos() # slurmctld hears of it from slurmdbd
{
    timeout 240 scontrol -o show assoc_mgr flags=qos | grep -q 'QOS=small.*MaxWallPJ=2 '
}
await "slurmctld does not know the QOS" knows_qos
up --policy icefrog --set slurm.poll=0.1 # it asks for limits when it starts
submit first 1 "slurm: {account: bio, qos: small}" sleep 3000
wait_state first running
[ "$(timeout 240 squeue -h -t R -q small -o %l)" = 2:00 ] ||
    fail "its time limit is $(timeout 240 squeue -h -t R -o '%q %l')"
# A job that needs more GPUs than are left waits here. What first uses is as old
# as the last answer, so it may be pending in Slurm once before.
submit two 2 "slurm: {account: bio, qos: small}" sleep 3000
wait_why two "limits of QOS small for root leave it 1 GPU, and it needs 2"
# A limit that does not depend on other jobs is known before the first try. With
# several such jobs nothing is asked twice.
submit three 3 "slurm: {account: bio, qos: small}" sleep 3000
wait_why three "limits of QOS small for root leave it 1 GPU, and it needs 3"
[ "$(field three epoch)" = 0 ] || fail "three was submitted to Slurm"
tries=$(field two epoch)
[ "$tries" -le 1 ] || fail "two was submitted $tries times"
api POST /jobs/three/cancel "" >/dev/null || fail "not cancelled"
api POST /jobs/first/cancel "" >/dev/null || fail "not cancelled"
wait_state two running # the limit has room, and firnd has read that
[ "$(field two epoch)" = $((tries + 1)) ] || fail "two: $(field two epoch) starts"
api POST /jobs/two/cancel "" >/dev/null || fail "not cancelled"
wait_state two cancelled
submit first2 1 "slurm: {account: bio, qos: small}" sleep 3000
wait_state first2 running
api POST /jobs 'name: both
run: [sleep, "3000"]
gpus: 1..4
slurm: {account: bio}
checkpoint: {grace: 1}' >/dev/null || fail "both was not taken"
wait_state both running
n=$(timeout 240 squeue -h -t R -q small -o %b | grep -c 'gpu[:=a-z0-9]*:1$')
[ "$n" = 2 ] || fail "Slurm runs $(timeout 240 squeue -h -q small -o '%T %b')"
# What first uses is as old as the last answer, so both may have asked for more.
[ "$(field both epoch)" -le 2 ] || fail "both was started $(field both epoch) times"
submit third 1 "slurm: {account: bio, qos: small}" sleep 3000
wait_why third "limits of QOS small for root leave it 0 GPUs"
[ "$(timeout 240 squeue -h -r -t PD -o %i | wc -l)" = 0 ] ||
    fail "a job is pending in Slurm: $(timeout 240 squeue)"
down
exit 0
