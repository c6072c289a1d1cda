#!/bin/sh
# run.sh - runs the benchmarks; `make bench` calls it.
#
# Each program prints lines of name, value, relation, limit and unit. Here they
# are laid out with "met" or "missed" and written to bench/results.json. Exits
# 1 when a bar is missed or a program fails. With arguments it runs that one
# program: run.sh submit build/firnd 600 100000 icefrog.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
FIRN=${FIRN:-$BUILD/firn}
lines=$(mktemp "${TMPDIR:-/tmp}/firn-bench.XXXXXX") || exit 1
results=bench/results.json
[ $# -eq 0 ] || results=$lines.json
trap 'rm -f "$lines" "$lines.json"' EXIT
failed=0

# run PROGRAM [ARGUMENT]: shows its lines as they come and keeps them.
run()
{
    program=$BUILD/bench/$1
    [ "${1%.sh}" = "$1" ] || program=bench/$1
    shift
    { "$program" "$@" || echo "! $program failed"; } | tee -a "$lines" |
        awk -F '\t' '
            /^[#!] / { print substr($0, 3); fflush(); next }
            { limit = $3 == "-" ? "" : $3 " " $4 " " $5
              if ($3 == "==") met = $2 == $4 ? "met" : "MISSED"
              else if ($3 == "<=") met = $2 != "nan" && $2 + 0 <= $4 + 0 ? "met" : "MISSED"
              else met = ""
              value = $3 == "==" ? $2 : sprintf("%.4g", $2)
              printf "%-52s %10s %-4s %-16s %s\n", $1, value, $5, limit, met
              fflush() }'
}

run_all()
{
    run exact
    run published
    run baselines
    run forecasts
    run shares
    run iceshare
    run sharing
    run frenzy
    run peakplan
    run pairs
    run model_eval
    run solvers
    run trainfold
    run traingroup
    [ ! -x "$BUILD/bench/store" ] || run store
    [ ! -x "$BUILD/bench/queue" ] || run queue "$FIRN"
    [ ! -x "$BUILD/bench/submit" ] || run submit "$BUILD/firnd"
    [ ! -x "$BUILD/bench/submit" ] || run submit "$BUILD/firnd" 60 100000 icefrog
    [ ! -x "$BUILD/bench/restart" ] || run restart "$BUILD/firnd"
    run joblog
    run small "$FIRN"
    run scale "$FIRN"
    FIRN=$FIRN run slurm.sh
}

if [ $# -gt 0 ]; then
    run "$@"
else
    run_all
fi

awk -F '\t' '
    function number(text) { return text ~ /^[-+0-9.e]+$/ ? text : "null" }
    BEGIN { printf "{\"results\":[" }
    /^[#!] / { next }
    { met = "null"
      if ($3 == "==") met = $2 == $4 ? "true" : "false"
      if ($3 == "<=") met = $2 != "nan" && $2 + 0 <= $4 + 0 ? "true" : "false"
      printf "%s\n {\"name\":\"%s\",\"value\":%s,\"unit\":\"%s\"", sep, $1,
          number($2), $5
      if ($3 != "-")
          printf ",\"relation\":\"%s\",\"limit\":%s,\"met\":%s", $3,
              number($4), met
      printf "}"
      sep = "," }
    END { printf "\n]}\n" }' "$lines" >"$results"

if grep -q '^! ' "$lines" || grep -q '"met":false' "$results"; then
    failed=1
fi
[ $# -gt 0 ] || echo "all results are in bench/results.json"
exit $failed
