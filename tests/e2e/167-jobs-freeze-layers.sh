#!/bin/sh
# 167-jobs-freeze-layers.sh - firn sim --freeze, and who cannot.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

cat >"$tmp/trace.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,app
a,0,1,1000,bert-base
b,10,1,1000,resnet18-c
c,20,1,1000,gpt-small
d,30,1,1000,unknown-app
END
# The published variances, by which every rule freezes something here; by those
# measured on an H200 tuned FreezeOut trains all layers of both jobs.
cp -r profiles "$tmp/profiles"
for app in bert-base resnet18-c resnet50-c; do
    grep -v '^layers_of' "profiles/h200/$app.txt" >"$tmp/profiles/h200/$app.txt"
done
sim() { run 0 sim -t "$tmp/trace.csv" -c 1x4:h200 --profiles "$tmp/profiles" "$@"; }
mean() { grep -o '"jct_mean_s":[0-9.]*' "$tmp/out" | head -1 | cut -d: -f2; }

# Freezing makes the jobs that can shorter; the others are counted, once.
sim -p fifo -q -o json
off=$(mean)
for rule in freezeout tuned-freezeout penalty; do
    sim -p fifo,srtf -o json --freeze $rule --out "$tmp/$rule"
    [ "$(grep -c 'without data on layers' "$tmp/err")" -eq 1 ] || fail "reported twice"
    run 0 sim --replay "$tmp/$rule"/*.events.tsv
    grep -q "^freeze	\"$rule\"" "$tmp/$rule"/*fifo.events.tsv ||
        fail "the log does not say how jobs froze"
    sim -p fifo -q -o json --freeze $rule
    awk "BEGIN { exit !($(mean) < $off) }" || fail "$rule saves nothing"
done
sim -p fifo --freeze penalty
err_has "2 jobs of applications without data on layers ('gpt-small' first)"

# 'off' is the default here; the rest is refused.
sim -p fifo -q -o json --freeze off
[ "$(mean)" = "$off" ] || fail "--freeze off is not the default"
run 2 sim -t "$tmp/trace.csv" -c 1x4:h200 -p fifo --freeze penalty
err_has "--freeze needs --profiles"
run 2 sim -t "$tmp/trace.csv" -c 1x4:h200 -p fifo --profiles builtin \
    --freeze hard
err_has "'hard' is not policy, off, freezeout, tuned-freezeout or penalty"

# Under icefrog jobs freeze by its penalty; a rule takes its place, 'off' too.
sim -p icefrog -q -o json
own=$(mean)
sim -p icefrog -q -o json --freeze penalty
[ "$(mean)" = "$own" ] || fail "icefrog has another rule than its own"
sim -p icefrog -q -o json --freeze off
awk "BEGIN { exit !($own < $(mean)) }" || fail "icefrog freezes all the same"
off=$(mean)
for rule in freezeout tuned-freezeout; do
    sim -p icefrog -q -o json --freeze $rule
    [ "$(mean)" != "$own" ] || fail "icefrog does not hear of $rule"
    awk "BEGIN { exit !($(mean) < $off) }" || fail "$rule saves nothing"
done

# A job that is nothing but the name of an application without a profile.
cat >"$tmp/unheard.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s,app,nominal
a,0,1,100,transformer9,1
END
run 1 sim -t "$tmp/unheard.csv" -c pollux -p fifo --profiles builtin
err_has "no profile of 'transformer9'"
err_has "cifar10"
