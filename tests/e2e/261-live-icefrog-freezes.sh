#!/bin/sh
# icefrog lets a job freeze layers by its user's rule: the trainer freezes some,
# reports how much its steps are worth, and makes up for it by more steps. Under
# a policy that leaves layers alone, and under a rule that is off, the same job
# freezes none. A job that says how many of its layers may be frozen freezes
# these and no more, where one that does not say so goes on.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
small="--threads 1 --epochs 8 --samples 256 --judge 0"

# run_job NAME RULE[, max: SHARE]: to its end; the number of steps is in $steps.
run_job()
{
    # shellcheck disable=SC2086 # words
    submit "$1" 1 "freeze: {rule: $2}
checkpoint: {grace: 10}
duration: 60" "$cnn" $small
    wait_state "$1" succeeded 120
    [ "$(field "$1" progress)" = 1 ] || fail "$1 is at $(field "$1" progress)"
    steps=$(reported "$1" step)
    api GET "/jobs/$1/logs" >"$tmp/$1.log"
}

# all_trained NAME: no layer was ever frozen, every step is one.
all_trained()
{
    ! grep -q '[1-9] layers frozen' "$tmp/$1.log" || fail "$1 froze layers"
    [ "$(reported "$1" nfrozen)" = 0 ] || fail "$1 has frozen layers"
    [ "$steps" = 64 ] || fail "$1 took $steps steps"
    [ "$(reported "$1" effective)" = 64 ] || fail "$1 has lost steps"
}

# frozen_at_most NAME N: N layers are frozen at the end, and never more.
frozen_at_most()
{
    most=$(sed -n 's/^epoch .* \([0-9]*\) layers frozen$/\1/p' "$tmp/$1.log" |
        sort -n | tail -n 1)
    [ "$most" = "$2" ] || fail "$1 froze '$most' layers, not $2"
    [ "$(reported "$1" nfrozen)" = "$2" ] || fail "$1 reports other layers"
}

up --gpus 1x1:v100@16 --policy icefrog --set icefrog.interval=1 \
    --set icefrog.restart=0
run_job freezes penalty
grep -q '[1-9] layers frozen' "$tmp/freezes.log" || fail "nothing was frozen"
[ "$steps" -gt 64 ] || fail "frozen steps were not made up for: $steps"
reported freezes effective | awk -v steps="$steps" '{
    exit !($1 > 60 && $1 < 65 && $1 < steps) }' ||
    fail "$steps steps are worth $(reported freezes effective)"
run_job off off
all_trained off
# By the schedule of FreezeOut, which goes by progress: the clock has no say.
whole=$small small="--threads 1 --epochs 8 --samples 64 --judge 0"
run_job unbound freezeout
frozen_at_most unbound 4
run_job bound "freezeout, max: 40%"
frozen_at_most bound 2
small=$whole
down

up --gpus 1x1:v100@16 --policy fifo
run_job plain penalty
all_trained plain
down
weights_of 2 off
weights_of 5 plain
weights_of 1 freezes
same_weights off plain
differ_weights off freezes
exit 0
