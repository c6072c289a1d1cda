#!/bin/sh
# fuzzer.sh - a target that hangs behind its numbers, when its second is over, has
# passed; one that hangs without them has failed.
. tests/lib/e2e.sh
mkdir "$tmp/bin"
for target in said mute; do
    {
        echo '#!/bin/sh'
        echo "trap '[ $target = mute ] ||" \
            'echo "stat::number_of_executed_units: 5";' \
            "while :; do sleep 0.1; done' INT"
        echo 'while :; do sleep 0.1; done'
    } >"$tmp/bin/$target"
    chmod +x "$tmp/bin/$target"
done
sh tools/run_fuzzer.sh 1 "$tmp/bin/mute" >"$tmp/mute" 2>&1 &
mute=$!
sh tools/run_fuzzer.sh 1 "$tmp/bin/said" >"$tmp/out" ||
    fail "it had said its numbers"
grep -q 'inputs tried: 5' "$tmp/out" || fail "its numbers are not shown"
! wait "$mute" || fail "a target that says nothing has passed"
exit 0
