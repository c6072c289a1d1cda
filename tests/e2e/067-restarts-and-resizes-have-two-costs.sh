#!/bin/sh
# 067-restarts-and-resizes-have-two-costs.sh - firn sim --restart-cost and
# --resize-cost: what each form charges, and what is refused.
. tests/lib/e2e.sh
cat >"$tmp/jobs.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,gpus_min,gpus_max,app,restart_s
a,0,2,1000,1,4,bert,20
b,100,2,200,1,4,ncf,20
END
# The mean completion time with these options, in seconds.
jct() {
    run 0 sim --trace "$tmp/jobs.csv" --cluster 1x4:t4 --policy optimus \
        -o csv "$@"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "jct_mean_s") k = i }
             NR == 2 { print $k }' "$tmp/out"
}
restarts=$(jct)
free=$(jct --resize-cost all=0)
slow=$(jct --resize-cost all=0/30/1000)
named=$(jct --resize-cost bert=0,ncf=0)
default=$(jct --resize-cost 0)
measured=$(jct --resize-cost measured --profiles none)
dear=$(jct --restart-cost all=200)
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }' ||
    fail "$3: $1 is not below $2"; }
less "$free" "$restarts" "free resizes against restarts"
less "$free" "$slow" "free resizes against a slow preparation"
less "$restarts" "$dear" "restarts of the trace against all=200"
[ "$named" = "$free" ] || fail "costs by application: $named, not $free"
[ "$default" = "$free" ] || fail "a cost for all others: $default, not $free"
[ "$measured" = "$restarts" ] ||
    fail "nothing was measured, yet $measured is not $restarts"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x4:t4 --policy optimus \
    --resize-cost 1/2/0.5
err_has "the slowdown while preparing is not from 1 to 1000"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x4:t4 --policy optimus \
    --resize-cost 1/2/1/1
err_has "is not PAUSE[/PREPARE[/SLOWDOWN]]"
exit 0
