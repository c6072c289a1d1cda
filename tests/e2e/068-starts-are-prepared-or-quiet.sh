#!/bin/sh
# 068-starts-are-prepared-or-quiet.sh - firn sim --prepare, --quiet-starts and
# --quiet-ends: by hand, the log of such a run is accepted, and what is refused.
. tests/lib/e2e.sh
# Starts of 10 s, 1 s if they are prepared in time, one job at a time. a is not
# prepared and trains from 10 to 30. b has its processes from its arrival on and
# ends at 35. c has them from the start of b on: at 35 5 of 10 s are left, 44.
cat >"$tmp/jobs.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,app
a,0,1,20,x
b,0,1,4,x
c,0,1,4,x
END
# The mean completion time with these options, in seconds.
jct() {
    run 0 sim --trace "$tmp/jobs.csv" --cluster 1x1:t4 --restart-cost 10s \
        --charge-first-start -o csv --out "$tmp/of" "$@"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "jct_mean_s") k = i }
             NR == 2 { printf "%.3f", $k }' "$tmp/out"
}
is() { [ "$1" = "$2" ] || fail "$3: $1, not $2"; }
is "$(jct --policy fifo --prepare 1,x=1s)" 36.333 "(30 + 35 + 44) / 3"
run 0 sim --replay "$tmp"/of/*.events.tsv
is "$(jct --policy fifo --prepare 1,y=1s)" 44.000 "another application"
is "$(jct --policy fifo)" 44.000 "(30 + 44 + 58) / 3"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x1:t4 --policy fifo --prepare none
err_has "'none' is neither a number of jobs from 1 to 1000 nor APP=TIME"
for half in 1 x=1s; do
    run 2 sim --trace "$tmp/jobs.csv" --cluster 1x1:t4 --policy fifo \
        --prepare $half
    err_has "--prepare needs a number of jobs and APP=TIME"
done

# Two jobs of 20 s on one GPU, twice as slow beside each other. b comes at 5 and
# makes its first step at 15. Loud: a trains from 10 to 50 at 1/2, b has 17.5 s
# then and ends at 52.5. Quiet: a trains alone until 15 and ends at 45, b at 50.
cat >"$tmp/jobs.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,app,may_share
a,0,1,20,x,1
b,5,1,20,x,1
END
shared="--policy sjf-ffs --share-slowdown 2"
# shellcheck disable=SC2086 # words
is "$(jct $shared)" 48.750 "(50 + 47.5) / 2"
# shellcheck disable=SC2086 # words
is "$(jct $shared --quiet-starts)" 45.000 "(45 + 45) / 2"
run 0 sim --replay "$tmp"/of/*.events.tsv
# The last 5 s of each are quiet too: a trains alone until 15 and has 15 of 20 s
# at 35, then alone until 40. b has 10 s at 35, 15 at 40, and ends at 45.
# shellcheck disable=SC2086 # words
is "$(jct $shared --quiet-starts --quiet-ends x=5s)" 40.000 "(40 + 40) / 2"
run 0 sim --replay "$tmp"/of/*.events.tsv
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x1:t4 --policy fifo --quiet-ends 5s
err_has "'5s' is not APP=TIME"

exit 0
