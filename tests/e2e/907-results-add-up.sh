#!/bin/sh
# 907-results-add-up.sh - the totals of docs/results.md and README.md are the
# sums over the papers. They are merged by hand when several pages change.
. tests/lib/e2e.sh

# "H of N claims hold; U undecided; R not reproducible": the first line is the
# total, the others are the papers'.
sums=$(sed -n 's/^\*\*\([0-9]* of [0-9]* claims hold.*\)\.\*\*$/\1/p' \
    docs/results.md | awk '
    function part(word) {
        return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0
    }
    { row = $1 " " $3 " " part("undecided") " " part("not reproducible") }
    NR == 1 { total = row; next }
    { holds += $1; all += $3; open += part("undecided")
      never += part("not reproducible") }
    END { print total "|" holds, all, open, never }')
[ "${sums%|*}" = "${sums#*|}" ] ||
    fail "docs/results.md: total ${sums%|*}, sums ${sums#*|}"
set -- ${sums#*|}
grep -q "holds: $1 of $2 do, $3 are undecided" README.md ||
    fail "README.md does not say '$1 of $2 do, $3 are undecided'"
