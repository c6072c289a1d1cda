#!/bin/sh
# 020-unknown-policy-names-the-nearest.sh - misspelt names get the nearest one.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 5
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy tiresis
err_has "did you mean 'tiresias'?"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo \
    --set fifo.skp=1
err_has "did you mean 'skip'?"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo \
    --set fif.skip=1
err_has "did you mean 'fifo'?"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo \
    --set fifo.skip=maybe
err_has "maybe"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo --set skip
err_has "'skip' is not policy.option=value"
run 0 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo \
    --set sjf.skip=0
err_has "has no effect: policy sjf is not simulated"
run 2 sim --polcy fifo
err_has "did you mean --policy?"
run 2 simm
err_has "did you mean 'sim'?"
run 2 policies tiresis
err_has "did you mean 'tiresias'?"
run 2 sim --trace "$tmp/jobs.csv" --cluster 1x8:v100 --policy fifo -o jsn
err_has "use table, json or csv"
exit 0
