#!/bin/sh
# 165-profiles-and-noise.sh - firn sim with measured rates, and wrong reports.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

cat >"$tmp/pollux.csv" <<'END'
name,time,application,num_replicas,batch_size
a,0,bert,4,53
b,10,cifar10,6,2048
c,20,bert,1,53
END
cat >"$tmp/mixed.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,app
a,0,1,100,bert
b,0,1,100,unknown-app
c,0,1,100,unknown-app
END

# Without profiles the durations are nominal, with them measured.
run 0 sim -t "$tmp/pollux.csv" -c pollux -p fifo -q -o json
out_has '"nominal_jobs":3'
cp "$tmp/out" "$tmp/plain"
run 0 sim -t "$tmp/pollux.csv" -c pollux -p fifo -q -o json --profiles none
sed 's/"cpu_s".*//' "$tmp/out" >"$tmp/none"
sed 's/"cpu_s".*//' "$tmp/plain" | cmp -s - "$tmp/none" ||
    fail "--profiles none is not the default"
run 0 sim -t "$tmp/pollux.csv" -c pollux -p fifo -q -o json --profiles builtin
out_has '"nominal_jobs":0'

# The shipped files, read from the folder, say the same as the built-in ones.
sed 's/"cpu_s".*//' "$tmp/out" >"$tmp/builtin"
run 0 sim -t "$tmp/pollux.csv" -c pollux -p fifo -q -o json --profiles profiles
sed 's/"cpu_s".*//' "$tmp/out" | cmp -s - "$tmp/builtin" ||
    fail "the folder profiles/ differs from the built-in profiles"

# Jobs without a profile are counted once, whatever the number of policies.
run 0 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo,srtf --profiles builtin
err_has "2 jobs of applications without a profile ('unknown-app' first)"
[ "$(grep -c 'without a profile' "$tmp/err")" -eq 1 ] || fail "told twice"

# 'data' is the folder FIRN_DATA names; a wrong one is named. Without the
# option the variable changes nothing.
FIRN_DATA=$tmp/nowhere run 1 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo \
    --profiles data
err_has "nowhere: not a folder"
run 2 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo --profiles data
err_has "but FIRN_DATA is not set"
FIRN_DATA=$tmp/nowhere run 0 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo
echo "app x" >"$tmp/bad.txt"
run 1 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo --profiles "$tmp"
err_has "bad.txt: line 1: 'source' is missing"
rm "$tmp/bad.txt"

# On several types rates change with the stages of training, and the replay
# accepts it; with noise too.
for noise in report=0 throughput=0.5,sharing=1.0,transfer=0.4,report=0.02; do
    run 0 sim -t "$tmp/pollux.csv" -c sia -p fifo,srtf,tiresias -q \
        --profiles builtin --noise $noise --out "$tmp/files"
    run 0 sim --replay "$tmp/files"/*.events.tsv
done
for wrong in speed=1 throughput throughput=x throughput=-1 report=99; do
    run 2 sim -t "$tmp/mixed.csv" -c 2x4:t4 -p fifo --noise $wrong
    err_has "--noise"
done

if [ -n "$data" ] && [ -d "$data/pollux/apps" ]; then
    run 0 sim -t "$tmp/pollux.csv" -c pollux -p fifo -q -o json \
        --profiles "$data"
    out_has '"nominal_jobs":0'
fi

# Work that is foretold wrongly changes what is decided, and nothing else.
awk 'BEGIN {
    print "#firn-trace 1"
    print "name,submit_s,gpus,duration_s,app,batch,gpus_min,gpus_max"
    for (i = 0; i < 12; i++)
        printf "j%d,%d,2,%d,cifar10,2048,1,8\n", i, i * 30, 600 + i * 200
}' >"$tmp/work.csv"
run 0 sim -t "$tmp/work.csv" -c 2x4:t4 -p ymir --profiles builtin -q -o csv
cp "$tmp/out" "$tmp/plain"
run 0 sim -t "$tmp/work.csv" -c 2x4:t4 -p ymir --profiles builtin -q -o csv \
    --noise iterations=0.5 --forecast tables --out "$tmp/o"
cmp -s "$tmp/plain" "$tmp/out" && fail "noise on iterations does nothing"
run 0 sim --replay "$tmp/o"/*.events.tsv
grep -q '^noise_iterations.0.5$' "$tmp/o"/*.events.tsv || fail "not in the log"
run 0 sim -t "$tmp/work.csv" -c 2x4:t4 -p ymir --profiles builtin -q -o csv \
    --forecast tables
cmp -s "$tmp/plain" "$tmp/out" || fail "tables that are not there changed it"
run 2 sim -t "$tmp/work.csv" -c 2x4:t4 -p ymir --profiles builtin \
    --forecast stars
err_has "'stars' is not fit, tables, pollux or data"
