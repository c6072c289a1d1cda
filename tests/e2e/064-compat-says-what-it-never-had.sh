#!/bin/sh
# 064-compat-says-what-it-never-had.sh - policies, clusters and applications.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh
[ -d "$data/pollux" ] && [ -d "$data/ymir" ] && [ -d "$data/sia" ] &&
    [ -d "$data/easyscale" ] || skip "no tables in FIRN_DATA"
FIRN_DATA=$data
export FIRN_DATA

sia=6x4:t4,2x8:a100@40,3x8:2080ti
es=1x32:v100,1x16:p100,1x16:t4
titan_head=name,submission_time,application,num_gpus,target_batch_size
titan_head=$titan_head,target_lr,target_gradient_steps,target_metric
es_head=$(head -1 "$data/easyscale/workload.csv")
es_row=$(sed -n 2p "$data/easyscale/workload.csv")

# A row of each workload, with an application without measurements.
printf '%s\n' name,time,application,num_replicas,batch_size a,0,gpt9,1,64 \
    >"$tmp/adaptdl.csv"
cp "$tmp/adaptdl.csv" "$tmp/sia.csv"
printf '%s\n' "$titan_head" a,0,gpt9@food101,1,48,1e-4,1,0.9 >"$tmp/titan.csv"
app=$(echo "$es_head" | tr , '\n' | grep -n -x application | cut -d: -f1)
echo "$es_head" >"$tmp/easyscale.csv"
echo "$es_row" | awk -F, -v OFS=, -v c="${app:-0}" \
    '{ if (c > 0) $c = "gpt9"; print }' >>"$tmp/easyscale.csv"

# refuses WORLD CLUSTER POLICY KNOWN-APPLICATION
refuses()
{
    all="sim --compat $1 --trace $tmp/$1.csv"
    # shellcheck disable=SC2086
    {
        run 2 $all --cluster "$2" --policy fifo
        err_has "never had a policy 'fifo'; it had "
        err_has "$3"
        run 1 $all --cluster 3x3:k80 --policy "$3"
        err_has "3x3:k80"
        run 1 $all --cluster "$2" --policy "$3" --mtbf 1d --mttr 1h
        err_has "never had failures"
        run 1 $all --cluster "$2" --policy "$3"
        err_has "gpt9"
        err_has "known: "
        err_has "$4"
    }
}
refuses adaptdl 16x4:t4 tiresias deepspeech2
refuses titan 8x4:v100 themis roberta-base@rte
refuses sia $sia sia deepspeech2
refuses easyscale $es yarn-cs resnet50
exit 0
