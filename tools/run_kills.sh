#!/bin/sh
# run_kills.sh - thousands of kill -9 of firnd, of shepherds and of slurmctld.
#
#   run_kills.sh [-j N] BUILD
#
# Runs tests/fault/test_kill, test_shepherds and test_slurm of that build folder
# in batches, N at once, and prints one table. The numbers of kills are the
# variables FIRN_KILLS (10000), FIRN_SHEPHERD_KILLS (2000) and FIRN_SLURM_CRASHES
# (200; 0 leaves Slurm out). What each batch said is kept in BUILD/kills, and a
# batch that passed there is not run again: an interrupted campaign goes on where
# it was. Remove the folder to begin anew. A batch has a seed of its own, which
# its output names; one that takes longer than an hour has failed. Exits 1 when
# any batch failed.
set -u

# one BUILD KIND NUMBER KILLS: a batch.
one()
{
    out=$1/kills/$2-$3
    [ ! -f "$out.ok" ] || return 0
    FIRN_SEED=$(($(date +%s) * 1000 + 1$3 - 1000))
    TMPDIR=$(mktemp -d /tmp/firn-kills.XXXXXX) || return 1
    export FIRN_SEED TMPDIR
    case $2 in
    firnd) set -- "$@" test_kill FIRN_KILLS ;;
    shepherd) set -- "$@" test_shepherds FIRN_SHEPHERD_KILLS ;;
    *) set -- "$@" test_slurm FIRN_SLURM_CRASHES ;;
    esac
    env "$6=$4" timeout -k 10 3600 "$1/tests/fault/$5" >"$out.out" 2>&1
    rc=$?
    rm -rf "$TMPDIR"
    if [ $rc -eq 0 ] && grep -q '^# figures: ' "$out.out"; then
        mv "$out.out" "$out.ok"
    elif [ $rc -eq 0 ]; then
        echo "  skip $out: $(sed -n 's/^# //p' "$out.out" | tail -n 1)"
    else
        echo "  FAIL $out.out (exit status $rc)"
    fi
}

# batches KIND KILLS SIZE: a line for each, "KIND NUMBER KILLS".
batches()
{
    awk -v kind="$1" -v left="$2" -v size="$3" 'BEGIN {
        for (i = 1; left > 0; i++) {
            n = left < size ? left : size
            printf "%s %03d %d\n", kind, i, n
            left -= n
        }
    }'
}

if [ "${1:-}" = --one ]; then
    shift
    one "$@"
    exit 0
fi
jobs=2
if [ "${1:-}" = -j ]; then
    jobs=$2
    shift 2
fi
[ $# -eq 1 ] || {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 2
}
build=$1
FIRN=$(cd "$build" && pwd)/firn
export FIRN
mkdir -p "$build/kills" || exit 1
rm -f "$build"/kills/*.out
since=$(date +%s)
{
    batches slurmctld "${FIRN_SLURM_CRASHES:-200}" 50
    batches firnd "${FIRN_KILLS:-10000}" 500
    batches shepherd "${FIRN_SHEPHERD_KILLS:-2000}" 250
} >"$build/kills/list"
unset FIRN_KILLS FIRN_SHEPHERD_KILLS FIRN_SLURM_CRASHES
xargs -P "$jobs" -L 1 sh "$0" --one "$build" <"$build/kills/list"

# "# figures: KIND kills jobs lost doubled booked ready_s took_s"
cat "$build"/kills/*.ok 2>/dev/null | awk -v wall="$(($(date +%s) - since))" '
    /^# figures: / {
        kind = $3
        if (!(kind in kills))
            order[++n] = kind
        kills[kind] += $4
        jobs[kind] += $5
        lost[kind] += $6
        doubled[kind] += $7
        booked[kind] += $8
        if ($9 > ready[kind])
            ready[kind] = $9
        took[kind] += $10
    }
    END {
        printf "%-10s %7s %12s %5s %8s %13s %14s %9s\n", "killed", "times",
            "acknowledged", "lost", "doubled", "double-booked",
            "worst ready s", "took s"
        for (i = 1; i <= n; i++) {
            k = order[i]
            printf "%-10s %7d %12d %5d %8d %13d %14.3f %9.0f\n", k, kills[k],
                jobs[k], lost[k], doubled[k], booked[k], ready[k], took[k]
        }
        printf "%d s in this run\n", wall
    }'
ls "$build"/kills/*.out >/dev/null 2>&1 && exit 1
exit 0
