#!/bin/sh
# fuzz_table.sh - a table of the last run of each fuzz target.
#
#   fuzz_table.sh FOLDER
#
# Reads the logs that run_fuzzer.sh left in FOLDER and prints a line for each
# target: inputs tried, seconds, edges of the code reached, inputs kept; then
# the sums. A target that found something has no number of inputs: its line says
# so.

for log in "$1"/fuzz_*.log; do
    [ -f "$log" ] || continue
    name=$(basename "$log" .log)
    awk -v name="$name" '
        /^#[0-9]+.* cov: / {
            for (i = 1; i < NF; i++) {
                if ($i == "cov:") edges = $(i + 1)
                if ($i == "corp:") { split($(i + 1), a, "/"); kept = a[1] }
            }
        }
        /^Done [0-9]+ runs in / { runs = $2; seconds = $5 }
        END { printf "%s %s %d %d %d\n", name, runs == "" ? "-" : runs,
                  seconds, edges, kept }' "$log"
done | awk '
    BEGIN { printf "%-24s %14s %9s %7s %7s\n", "target", "inputs", "seconds",
                "edges", "kept" }
    { printf "%-24s %14s %9d %7d %7d%s\n", $1, $2, $3, $4, $5,
          $2 == "-" ? "  found something" : ""
      runs += $2; seconds += $3; n++ }
    END { printf "%-24s %14d %9d\n", n " targets", runs, seconds }'
