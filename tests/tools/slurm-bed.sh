#!/bin/sh
# slurm-bed.sh - the bed is a Slurm that books the GPUs it is asked for, by slot
# and by shard; parts of it can be killed and started; nothing is left. TAP.
bed=$(cd "$(dirname "$0")/../../tools" && pwd)/slurm-bed
PATH=$PATH:/usr/sbin
command -v slurmctld >/dev/null && command -v sbatch >/dev/null || {
    echo "skipped: Slurm is not installed"
    exit 77
}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-bed.XXXXXX") || exit 1
# Not below $TMPDIR: the names of Slurm's sockets must be short.
at=$(mktemp -d /tmp/firn-bed.XXXXXX) || exit 1
other=
trap 'kill $other 2>/dev/null; "$bed" down --dir "$at"
    rm -rf "$tmp" "$at"' EXIT
trap 'exit 130' INT TERM
n=0

# expect NAME COMMAND...: it succeeds.
expect()
{
    n=$((n + 1))
    name=$1
    shift
    if "$@" >"$tmp/said" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$tmp/said"
    fi
}

refuses()
{
    ! "$@"
}

# job OUT ARGUMENT...: a job that tells its GPUs and sleeps.
job()
{
    out=$1
    shift
    # shellcheck disable=SC2016 # for the job to expand
    timeout 60 sbatch -Q -o "$tmp/$out" "$@" --wrap \
        'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"; exec sleep 900'
}

# said OUT WORDS: the job comes to say so.
said()
{
    tries=0
    until [ "$(cat "$tmp/$1" 2>/dev/null)" = "$2" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || {
            cat "$tmp/$1"
            return 1
        }
        sleep 0.05
    done
}

both_run()
{
    job c -w n1 --gres=shard:v100s2:2,shard:v100s3:2 &&
        job d -w n1 --gres=shard:v100s2:2,shard:v100s3:2 &&
        said c "n1 2,3" && said d "n1 2,3"
}

# on_node NODE: a process of this bed's jobs is there.
on_node()
{
    # shellcheck disable=SC2046 # file names
    grep -qszx "SLURMD_NODENAME=$1" $(grep -lszxF "SLURM_CONF=$SLURM_CONF" \
        /proc/[0-9]*/environ) /dev/null
}

# run_there NODE: jobs come to run there. They want no GPU: whether the old ones
# are still counted goes by when the controller last wrote them down.
run_there()
{
    tries=0
    until job e -w "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || return 1
        sleep 0.1
    done
    said e "$1 "
}

none_runs()
{
    ! grep -qs -e "$at" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
}

expect "a wrong argument is refused" refuses "$bed" up --nodes many
expect "a bed comes up" "$bed" up --dir "$at" --cluster 1x2:a100,1x4:v100
expect "a second up changes nothing" "$bed" up --dir "$at" \
    --cluster 1x2:a100,1x4:v100
expect "an up with other nodes is refused" refuses "$bed" up --dir "$at" --nodes 5
SLURM_CONF=$at/etc/slurm.conf
export SLURM_CONF
job a -w n1 --gres=gpu:v100s1:1
job two -w n0 --gres=gpu:a100s0:1,gpu:a100s1:1
expect "a job has the GPU that it named" said a "n1 1"
expect "a job has the two GPUs that it named" said two "n0 0,1"
expect "two jobs run on the shards of the same GPUs" both_run
expect "a node that is not there is not killed" \
    refuses "$bed" kill n7 --dir "$at"
expect "a node dies with its steps" "$bed" kill n0 --steps --dir "$at"
expect "the processes of a dead node are gone" refuses on_node n0
expect "processes of other nodes live" on_node n1
expect "the controller dies" "$bed" kill ctld --dir "$at"
expect "the controller starts again" "$bed" start ctld --dir "$at"
expect "the node starts again" "$bed" start n0 --dir "$at"
expect "a node can be killed just after its start" "$bed" kill n0 --dir "$at"
cp "$(command -v sleep)" "$tmp/slurmd"
(unset SLURM_CONF && exec "$tmp/slurmd" 900) &
other=$!
until [ "$(cat "/proc/$other/comm")" = slurmd ]; do
    sleep 0.01
done
echo $other >"$at/run/slurmd.n0.pid" # numbers are given out again
expect "a foreign process with its pid is not killed" \
    refuses "$bed" kill n0 --dir "$at"
expect "a node can be started just after its kill" "$bed" start n0 --dir "$at"
expect "the foreign process lives" kill -0 $other
expect "the node runs a job again" run_there n0
(unset SLURM_CONF && exec "$bed" down --dir "$at") >/dev/null
SLURM_CONF=
expect "no file is left" test ! -e "$at"
expect "no process is left" none_runs
expect "nothing is left to take down" "$bed" down --dir "$at"
echo "1..$n"
