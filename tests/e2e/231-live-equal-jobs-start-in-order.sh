#!/bin/sh
# Equal jobs start in the order in which they were submitted: ten that ask for
# one GPU each, on a node that has one.
. tests/lib/firnd.sh
njobs=10

# in_order POLICY: submits the jobs and compares the order of their starts.
in_order()
{
    up --gpus 1x1:v100@16 --policy "$1"
    # A job holds the GPU until all others are in the queue.
    submit first 1 "duration: 6" \
        sh -c "until [ -e $tmp/go ]; do sleep 0.05; done"
    wait_state first running
    for i in $(seq $njobs); do
        submit "j$i" 1 "duration: 6" true
    done
    : >"$tmp/go"
    for i in $(seq $njobs); do
        wait_state "j$i" succeeded
    done
    for i in $(seq $njobs); do
        echo "$(field "j$i" started_s) $i"
    done | sort -n -s -k 1,1 | awk '{ print $2 }' | xargs >"$tmp/order"
    [ "$(cat "$tmp/order")" = "$(seq $njobs | xargs)" ] ||
        fail "$1 started equal jobs in the order $(cat "$tmp/order")"
    down
    rm -rf "$tmp/state" "$tmp/go"
}

in_order icefrog
in_order firn
in_order themis
exit 0
