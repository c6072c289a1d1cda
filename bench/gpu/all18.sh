#!/bin/sh
# all18.sh - the tables of the trainer runtime in one go: sums, elastic runs,
# split models.
#
# usage: bench/gpu/all18.sh [OUT]      (OUT: $OUT, else the current folder)
#
# Writes fold.csv, copies.csv, elastic_equal.csv, elastic_overhead.csv and
# parallel.csv, and what the scripts printed as all18.log. About 400 seconds at
# most on a GPU: each script is ended after its share, and keeps its rows so
# far. First the kernel that adds gradients is tested; if that fails, PyTorch's
# own kernels are measured. DEVICE=cpu TINY=1 SCALE=3 tests this script. The
# exit status is that of the last script that failed, else 0.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-${OUT:-.}}
device=${DEVICE:-cuda}
python=${PYTHON:-python3}
tiny=${TINY:+--tiny}
scale=${SCALE:-1}
status=0
mkdir -p "$out" || exit 1
log=$out/all18.log
: >"$log"

# part SECONDS NAME COMMAND...: runs a command for so long at most.
part() {
	limit=$(($1 * scale))
	name=$2
	shift 2
	echo "== $name, at most $limit s" | tee -a "$log"
	begin=$(date +%s)
	timeout -k 5 "$limit" "$@" >"$out/part.log" 2>&1
	rc=$?
	cat "$out/part.log" >>"$log"
	grep -v "^#" "$out/part.log" | tail -n 50
	echo "== $name: status $rc after $(($(date +%s) - begin)) s" | tee -a "$log"
	[ $rc = 0 ] || status=$rc
	return $rc
}

# measure SECONDS NAME SCRIPT OPTION...: runs a measuring script.
measure() {
	seconds=$1
	name=$2
	script=$3
	shift 3
	# shellcheck disable=SC2086 # $tiny is one option or none
	part "$seconds" "$name" "$python" "$here/$script" --device "$device" $tiny --out "$out" "$@"
}

export PYTHONPATH="$root/python:$root/tests/python${PYTHONPATH:+:$PYTHONPATH}"
part 30 kernel "$python" -m unittest test_folding || export FIRN_FOLD=foreach
measure 45 fold train_fold.py --seconds 35
measure 155 equal train_elastic.py --only equal --limit $((85 * scale))
measure 110 overhead train_elastic.py --only overhead --seconds 95 --rounds 7
measure 75 parallel train_parallel.py --limit $((25 * scale))
rm -f "$out/part.log"
exit $status
