#!/bin/sh
# 161-profile-names-bad-tables.sh - bad rows, bad tables, bad words.
. tests/lib/e2e.sh

h200=profiles/h200/freeze.csv
head -41 "$h200" >"$tmp/good.csv"

# A row is named by its line and left out; the rest is used.
awk -F, -v OFS=, 'NR == 3 { $9 = "abc" } NR == 5 { $11 = -1 }
    NR == 7 { $5 = 1.5 } NR == 9 { $13 = "nan" } NR == 11 { $9 = 0 }
    NR == 13 { $12 = "inf" } { print }' "$tmp/good.csv" >"$tmp/bad.csv"
run 0 profile eval --fit "$tmp/bad.csv" --test "$tmp/good.csv"
err_has "bad.csv: line 3: bwd_ms is 'abc', not a number"
err_has "bad.csv: line 5: the step time is not positive"
err_has "bad.csv: line 7: an unfrozen share"
err_has "bad.csv: 2 more bad rows"
out_has "resnet18-c"

# Cut off in the middle of a row.
head -c 2000 "$h200" >"$tmp/cut.csv"
run 0 profile eval --fit "$tmp/cut.csv" --test "$tmp/good.csv"

# Too few rows to fit: said, and a failure when nothing is left.
head -2 "$h200" >"$tmp/one.csv"
run 1 profile eval --fit "$tmp/one.csv" --test "$tmp/good.csv"
err_has "iteration is not fitted"
err_has "no application could be fitted"
head -1 "$h200" >"$tmp/none.csv"
run 1 profile eval --fit "$tmp/none.csv" --test "$tmp/good.csv"
err_has "no valid row"
: >"$tmp/empty.csv"
run 1 profile fit "$tmp/empty.csv"
err_has "no header"
echo "a,b" >"$tmp/other.csv"
run 1 profile fit "$tmp/other.csv"
err_has "no table of a format that is known"
echo "iter_ms,batch" >"$tmp/other.csv"
run 1 profile fit "$tmp/other.csv"
err_has "no column 'model'"
run 1 profile fit "$tmp/no-such.csv"
run 1 profile eval --fit "$tmp/good.csv" --points "$tmp/no/such/file"
err_has "no/such/file"

# An application that only the test table has.
sed 's/resnet18-c/other/' "$tmp/good.csv" >"$tmp/renamed.csv"
run 1 profile eval --fit "$tmp/good.csv" --test "$tmp/renamed.csv"
err_has "'other' is only in $tmp/renamed.csv"

# Frozen layers without a layer table, and with one.
awk 'BEGIN {
    print "placement,local_bsz,step_time,sync_time,frozen_layer"
    for (k = 0; k < 4; k++)
        for (b = 8; b <= 64; b += 8)
            printf "%s,%d,%.5f,0.001,%d\n", 1 + b % 3, b,
                0.01 * b * (1 - k / 5), k
}' >"$tmp/frozen.csv"
run 0 profile eval --fit "$tmp/frozen.csv"
err_has "each frozen layer counts 1/4"
cat >"$tmp/layers.csv" <<EOF
app,frozen_layers,param_frac_left,flop_frac_left,activation_frac_left
x,0,1,1,1
x,1,0.9,-0.1,0.8
x,2,0.8,0.6,0.6
EOF
run 0 profile eval --fit "$tmp/frozen.csv" --layers "$tmp/layers.csv#x"
err_has "frozen_layer is 3, of which the layer table says nothing"
run 1 profile eval --fit "$tmp/frozen.csv" --layers "$tmp/layers.csv#y"
err_has "no layers of application 'y'"

run 2 profile
err_has "no subcommand given: use list, show, eval or fit"
run 2 profile evl
run 2 profile eval
err_has "no table given: use --fit A.csv"
run 2 profile eval --fit "$h200" -o xml
run 2 profile fit
run 0 profile eval --help
out_has "--points"
exit 0
