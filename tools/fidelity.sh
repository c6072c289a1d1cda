#!/bin/sh
# fidelity.sh - the tables of docs/fidelity.md, measured again.
#
#   FIRN_DATA=... tools/fidelity.sh [FIRN]
#
# Prints Markdown. Each row adds one rule of a published simulator to the
# honest one, so that a difference between the two falls apart into causes.
# About a minute.
set -eu
cd "$(dirname "$0")/.."
FIRN=${1:-build/firn}
: "${FIRN_DATA:?names the folder of published data}"

# jct FILE CLUSTER POLICY [OPTION...]: mean JCT and restarts, "3278.3 (33)".
jct()
{
    file=$1 cluster=$2 policy=$3
    shift 3
    "$FIRN" sim -q -o csv -t "$file" -c "$cluster" -p "$policy" "$@" |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                 { gsub(/"[^"]*"/, "-") # a cluster may have commas
                   printf "%.1f (%d)", $at["jct_mean_s"], $at["restarts"] }'
}

# row LABEL CLUSTER POLICY FILES [OPTION...]: one line of a table.
row()
{
    label=$1 cluster=$2 policy=$3 files=$4
    shift 4
    printf '| %s |' "$label"
    for f in $files; do
        printf ' %s |' "$(jct "$f" "$cluster" "$policy" "$@")"
    done
    echo
}

# head WHAT FILES: the top of a table, a column for each file.
head_of()
{
    printf '\n| %s |' "$1"
    for f in $2; do
        printf ' %s |' "$(basename "$f" .csv)"
    done
    printf '\n| --- |'
    for f in $2; do
        printf ' --- |'
    done
    echo
}

same=30
for app in bert cifar10 deepspeech2 imagenet ncf yolov3; do
    costs="${costs:+$costs,}$app=$same"
done
pollux=
for n in 1 2 4 6 7; do
    pollux="$pollux $FIRN_DATA/pollux/workloads/workload-$n.csv"
done
for policy in tiresias optimus pollux; do
    head_of "$policy, 16x4:t4" "$pollux"
    row "honest" 16x4:t4 $policy "$pollux" --profiles data
    row "a restart costs 30 s" 16x4:t4 $policy "$pollux" --profiles data \
        --restart-cost "$costs"
    row "the first start too" 16x4:t4 $policy "$pollux" --profiles data \
        --restart-cost "$costs" --charge-first-start
    row "rounds of 60 s" 16x4:t4 $policy "$pollux" --profiles data \
        --restart-cost "$costs" --charge-first-start --interval 60
    row "--compat adaptdl" 16x4:t4 $policy "$pollux" --compat adaptdl
done

titan=
for w in FM-1-vit FM-1-vit-large FM-1-roberta-base FM-1-roberta-large; do
    titan="$titan $FIRN_DATA/ymir/workloads/$w.csv"
done
for policy in srtf tiresias optimus themis; do
    every=300
    [ $policy = themis ] && every=60
    head_of "$policy, 8x4:v100" "$titan"
    row "honest" 8x4:v100 $policy "$titan" --profiles data
    row "the first start costs too" 8x4:v100 $policy "$titan" \
        --profiles data --charge-first-start
    row "rounds of $every s" 8x4:v100 $policy "$titan" --profiles data \
        --charge-first-start --interval $every
    row "--compat titan" 8x4:v100 $policy "$titan" --compat titan
done

sia="$FIRN_DATA/sia/workloads/philly/workload-6.csv"
on=6x4:t4,2x8:a100@40,3x8:2080ti
head_of "sia, $on" "$sia"
row "honest" $on sia "$sia" --profiles data
row "the first start costs too" $on sia "$sia" --profiles data \
    --charge-first-start
row "rounds of 60 s" $on sia "$sia" --profiles data --charge-first-start \
    --interval 60
row "--compat sia" $on sia "$sia" --compat sia

es="$FIRN_DATA/easyscale/workload.csv"
on=1x32:v100,1x16:p100,1x16:t4
head_of "yarn-cs, $on" "$es"
row "honest" $on yarn-cs "$es" --profiles data
row "the first start costs too" $on yarn-cs "$es" --profiles data \
    --charge-first-start
row "rounds of 60 s" $on yarn-cs "$es" --profiles data --charge-first-start \
    --interval 60
row "--compat easyscale" $on yarn-cs "$es" --compat easyscale
head_of "--compat easyscale, $on" "$es"
row "easyscale-homo" $on easyscale-homo "$es" --compat easyscale
row "easyscale-heter" $on easyscale-heter "$es" --compat easyscale
