#!/bin/sh
# Users who keep to sbatch: what they send to a closed partition becomes a job
# of firn's, is placed by its policy beside firn's own, started by Slurm as it
# was sent, and ends as it ends. One that is taken back is gone; one that firn
# cannot place is left alone; a name is only a name.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x2:v100@16
up --policy fifo --set slurm.inbox=inbox

# say NAME OPTION...: a job that writes where it runs and ends.
say()
{
    out=$1
    shift
    # shellcheck disable=SC2016 # for the job to expand
    timeout 20 sbatch -Q -p inbox -J "$out" -o /dev/null --export=ALL \
        "$@" --wrap "echo \$SLURMD_NODENAME \$CUDA_VISIBLE_DEVICES \
>\"$tmp/said-$out\"; ${body:-exit 0}" || fail "sbatch of $out failed"
}

# all_of STATE N: so many jobs of the inbox are in that state.
all_of()
{
    tries=0
    until [ "$(api GET /jobs | sed 's/}, /}\
/g' | grep '"queue": "inbox"' | grep -c "\"state\": \"$1\"")" -eq "$2" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "not $2 are $1: $(api GET /jobs)"
        sleep 0.1
    done
}

say whole --gres=gpu:2
say single --gres=gpu:1
all_of succeeded 2
case $(cat "$tmp/said-whole") in
n[01]\ 0,1) ;;
*) fail "whole ran on $(cat "$tmp/said-whole")" ;;
esac
[ -s "$tmp/said-single" ] || fail "single did not run"
# A failure is a failure.
body='exit 3' say fails --gres=gpu:1
all_of failed 1

# Firn's own holds everything; then sbatch's jobs wait as any other.
submit full 4 "checkpoint: {grace: 5}" sh -c \
    "trap 'exit 83' USR1; while :; do sleep 0.1; done"
wait_state full running
say waits --gres=gpu:1
say taken-back --gres=gpu:1
# shellcheck disable=SC2016 # it is no command
say '$(touch '"x$$"'); a|b' --gres=gpu:1 -H
timeout 20 sbatch -Q -p inbox -J odd -o /dev/null --wrap true
all_of pending 2
grep -q 'is left alone: it asks for no GPUs' "$tmp/err" || fail "not named"
timeout 20 scancel --name=taken-back
all_of cancelled 1
[ -e "x$$" ] && fail "a name was run"
down KILL # and known again
up --policy fifo --set slurm.inbox=inbox
all_of pending 1
api POST /jobs/full/cancel "" >/dev/null || fail "not cancelled"
all_of succeeded 3
[ -s "$tmp/said-waits" ] || fail "it did not run"
# What was held is still held, in the inbox.
[ "$(timeout 20 squeue -h -p inbox -o %T | sort | uniq -c | xargs)" = \
    "2 PENDING" ] || fail "the inbox has $(squeue -h -p inbox)"
down
exit 0
