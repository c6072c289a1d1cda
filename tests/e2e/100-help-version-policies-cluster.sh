#!/bin/sh
# 100-help-version-policies-cluster.sh - what firn says about itself.
. tests/lib/e2e.sh
run 0
out_has "usage: firn COMMAND"
cp "$tmp/out" "$tmp/help"
for args in help --help -h; do
    run 0 $args
    cmp -s "$tmp/out" "$tmp/help" || fail "firn $args is another page"
done
for command in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$tmp/help"); do
    run 0 help "$command"
    out_has "usage: firn $command"
done
run 2 help nothing
run 0 --version
grep -qx 'firn [0-9]*\.[0-9]*\.[0-9]*' "$tmp/out" || fail "no version"
run 0 policies
for word in fifo tiresias "fifo.skip" "NSDI 2019" durations preempt; do
    out_has "$word"
done
run 0 policies tiresias
out_has "tiresias.thresholds"
run 0 cluster
out_has "pollux"
for preset in pollux sia bsbf icefrog easyscale ymir big; do
    run 0 cluster show $preset
    out_has "cluster $preset:"
done
run 0 cluster show 24x8:v100,2x4:a100@80
out_has "26 nodes, 200 GPUs"
run 1 cluster show pollx
err_has "pollx"
run 2 cluster shw pollux
exit 0
