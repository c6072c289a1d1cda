#!/bin/sh
# 174-planted-policies-fail.sh - every claim of every paper can fail.
#
# A wrong policy (tests/repro/planted.c) takes the place of the policy that a
# claim is about, in every scenario of papers/. A claim that holds then holds
# for any policy. Likewise no claim about noise may hold without noise. A claim
# that could not be judged has not failed either.
#
# In the check each workload has one draw and the seven longest scenarios are
# left out, each of which takes 1 to 9 s; `make soak` runs all with all draws.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

# A workload that is drawn has at least 20 draws, and so has noise.
for file in papers/*.yaml; do
    few=$(grep -E '(gen|draw|sample):' "$file" | grep -E '[-:"{ ]use:|traces|- "' |
        grep -Ev '\{1\.\.([2-9][0-9]|[1-9][0-9][0-9])\}' |
        grep -Ev '\{61\.\.120\}|\{121\.\.180\}')
    [ -z "$few" ] || fail "$file: fewer than 20 draws: $few"
    grep -q '^  of: noise' "$file" || continue
    grep -Eq '^seeds: ([2-9][0-9]|100)|\{1\.\.([2-9][0-9])\}' "$file" ||
        fail "$file: noise with fewer than 20 draws"
done

[ -d "$data" ] || skip "FIRN_DATA is not set"
FIRN_DATA=$(cd "$data" && pwd)
export FIRN_DATA
${CC:-cc} -std=c17 -O2 -Wall -Wextra -Werror -shared -fPIC -Iinclude \
    -o "$tmp/planted.so" tests/repro/planted.c || fail "planted.c: no compiler"

long=' easyscale-serving frenzy-fig5a icefrog-fig11a icefrog-fig12'
long="$long sjf-bsbf-fig6a sjf-bsbf-table4 ymir-fig11 "
names=
for file in papers/*.yaml; do
    name=$(basename "$file" .yaml)
    case $long in
    *" $name "*) [ -n "${FIRN_SOAK-}" ] || continue ;;
    esac
    names="$names $name"
done
[ -z "${FIRN_QUICK-}" ] || # sanitizers: one of each kind of claim
    names='easyscale-fig15 frenzy-fig6 icefrog-table9 sjf-bsbf-table2 ymir-fig8b
        ymir-table5'
draws='--draws 1'
[ -z "${FIRN_SOAK-}" ] || draws=

# judged: no claim holds, none is without a verdict.
judged()
{
    grep -q '  yes$' "$tmp/out" && fail "a claim holds: $(grep '  yes$' "$tmp/out")"
    bad=$(grep -E '  no: (failed|jobs differ|no policy)$' "$tmp/out")
    [ -z "$bad" ] || fail "not judged: $bad"
    grep -q '  no: ' "$tmp/out" || fail "no claim was judged"
}

# shellcheck disable=SC2086 # words
run 0 repro $names --plant "$tmp/planted.so" $draws -q
err_is_empty
judged
# shellcheck disable=SC2086
run 0 repro $names --mute ${draws:+--draws 3} -q
err_is_empty
judged
out_has "  no: inert"

# The test itself can fail: a policy that is right, planted, holds its claims.
cat >"$tmp/jobs.csv" <<'END'
#firn-trace 1
name,submit_s,gpus,duration_s
a,0,2,100
b,1,2,200
c,2,2,10
END
mkdir "$tmp/papers"
cat >"$tmp/papers/tiny.yaml" <<END
name: tiny
paper: Example
shows: three jobs
cluster: 1x2:v100
metrics: [jct_mean_s]
traces: [$tmp/jobs.csv]
options: {restart-cost: 0}
policies:
  - {label: SJF, policy: sjf, set: [no-such-option=1]}
  - {label: FIFO, policy: fifo}
claims:
  - {of: SJF, over: FIFO, times: 1.3}
END
run 1 repro --papers "$tmp/papers" --plant sjf
err_has "tiny: 1 of 1 claims hold although the policy is sjf: they cannot fail"
run 0 repro --papers "$tmp/papers" --plant fifo
out_has "no: even"
run 2 repro --papers "$tmp/papers" --plant no-such-policy
err_has "--plant: "
exit 0
