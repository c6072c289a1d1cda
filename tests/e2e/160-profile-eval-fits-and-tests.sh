#!/bin/sh
# 160-profile-eval-fits-and-tests.sh - firn profile eval and fit on tables.
. tests/lib/e2e.sh

h200=profiles/h200/freeze.csv

# cut_table EXPRESSION FILE: the header and the rows of which awk says so.
cut_table()
{
    awk -F, "NR == 1 || ($1)" "$h200" >"$2"
}

# number QUANTITY KEY: of all applications together, from the JSON.
number()
{
    sed "s/.*\"all\"://; s/.*\"$1\":{//" "$tmp/out" |
        grep -o "\"$2\":[0-9.e+-]*" | head -1 | cut -d : -f 2
}

holds()
{
    awk "BEGIN { exit !($1) }" || fail "not so: $1"
}

# Even frozen shares teach, odd ones are predicted.
cut_table '$1 == "bert-base" && ++n[$2] % 2 == 1' "$tmp/a.csv"
cut_table '$1 == "bert-base" && ++n[$2] % 2 == 0' "$tmp/b.csv"
run 0 profile eval --fit "$tmp/a.csv" --test "$tmp/b.csv" -o json \
    --points "$tmp/points.csv"
err_is_empty
for word in iteration backward memory utilisation mean_ape_pct max_ape_pct \
    '"r2"' '"all"'; do
    out_has "$word"
done
holds "$(number backward rows) == 20"
holds "$(number backward mean_ape_pct) < 3"
holds "$(number backward mean_ape_pct) <= \
    $(number backward max_ape_pct)"
holds "$(number memory r2) > 0.99"
# Twenty rows each of three quantities, and those with a utilisation.
[ "$(grep -c ',backward,' "$tmp/points.csv")" -eq 20 ] || fail "points"
[ "$(grep -c ',utilisation,' "$tmp/points.csv")" -gt 3 ] || fail "points"
awk -F, 'NR > 1 && !($7 > 0 && $8 > 0) { exit 1 }' "$tmp/points.csv" ||
    fail "a point is not positive"

# The same numbers again, and a table.
cp "$tmp/out" "$tmp/first"
run 0 profile eval --fit "$tmp/a.csv" --test "$tmp/b.csv" -o json
cmp -s "$tmp/out" "$tmp/first" || fail "not the same twice"
run 0 profile eval --fit "$tmp/a.csv" --test "$tmp/b.csv"
out_has "mean %"
out_has "bert-base"

# Halves of one table by a seed.
run 0 profile eval --fit "$h200" --seed 2
out_has "all"
cp "$tmp/out" "$tmp/first"
run 0 profile eval --fit "$h200" --seed 3
cmp -s "$tmp/out" "$tmp/first" && fail "the seed does nothing"

# Parameters.
run 0 profile fit "$tmp/a.csv"
out_has "flop_gamma"
run 0 profile fit "$tmp/a.csv" -o json
out_has '"iteration":{"alpha_s":'
out_has '"backward":{"c0":'

# The other format: three nodes of 4, 1 and 3 GPUs and so on.
awk 'BEGIN {
    print "placement,local_bsz,step_time,sync_time"
    split("1 2 4 11 22 44 111 413", p, " ")
    for (i = 1; i <= 8; i++)
        for (b = 8; b <= 64; b += 8) {
            sync = i > 1 ? 0.01 * i : 0.001
            printf "%s,%d,%.6f,%.6f\n", p[i], b, 0.05 + 0.002 * b + sync, sync
        }
}' >"$tmp/placements.csv"
run 0 profile eval --fit "$tmp/placements.csv" -o json
holds "$(number iteration mean_ape_pct) < 4"
out_has '"compute"'
exit 0
