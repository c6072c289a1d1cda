#!/bin/sh
# A job finds the programs of the PATH of its user, --env-all gives it the other
# variables, and with `launch: one` one process has all GPUs of the job.
. tests/lib/firnd.sh
only local "it looks at the GPUs of this host"
up --gpus 1x4:v100@16
mkdir "$tmp/bin"
printf '#!/bin/sh\necho "mine $CUDA_VISIBLE_DEVICES $RANK $WORLD_SIZE ${DATA-unset}"\n' \
    >"$tmp/bin/train"
chmod +x "$tmp/bin/train"
# logs_of ARGUMENT...: the sorted lines that a job prints which is submitted so.
logs_of()
{
    PATH=$tmp/bin:$PATH DATA=/data FIRN_X=1 "$FIRN" submit --socket "$socket" \
        --wait "$@" >"$tmp/out" 2>"$tmp/err" || fail "firn submit $*"
    "$FIRN" logs --socket "$socket" "$(cat "$tmp/out")" | grep -v ^firn: | sort
}
lines=$(logs_of --gpus 2 --launch one -- train)
[ "$lines" = "mine 0,1 0 1 unset" ] || fail "one process printed '$lines'"
lines=$(logs_of --gpus 2 -- train)
[ "$lines" = "mine 0,1 0 2 unset
mine 0,1 1 2 unset" ] || fail "two processes printed '$lines'"
lines=$(logs_of --gpus 1 --env-all --env MORE=1 -- train)
[ "$lines" = "mine 0 0 1 /data" ] || fail "with --env-all it printed '$lines'"
# A conda environment is PATH and two variables, which go along.
printf '#!/bin/sh\necho "$CONDA_PREFIX $CONDA_DEFAULT_ENV ${VIRTUAL_ENV-unset}"\n' \
    >"$tmp/bin/python"
chmod +x "$tmp/bin/python"
CONDA_PREFIX=$tmp CONDA_DEFAULT_ENV=lab
export CONDA_PREFIX CONDA_DEFAULT_ENV
unset VIRTUAL_ENV
lines=$(logs_of --gpus 1 -- python)
[ "$lines" = "$tmp lab unset" ] || fail "in a conda environment it printed '$lines'"
lines=$(logs_of --gpus 1 --env CONDA_DEFAULT_ENV=mine -- python)
[ "$lines" = "$tmp mine unset" ] || fail "with --env it printed '$lines'"
unset CONDA_PREFIX CONDA_DEFAULT_ENV
printf 'run: [train]\ngpus: 4\nlaunch: one\nenv: {DATA: file}\n' >"$tmp/job.yaml"
lines=$(logs_of -f "$tmp/job.yaml")
[ "$lines" = "mine 0,1,2,3 0 1 file" ] || fail "the job file printed '$lines'"
run 2 submit --socket "$socket" --env-all -f "$tmp/job.yaml"
err_has "--env-all goes with a command"
down
