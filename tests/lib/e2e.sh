# e2e.sh - functions of the shell tests. Sourced, not run.
#
# Sets FIRN and a temporary folder $tmp; moves FIRN_DATA to $data, as it would
# change the results of every run. A test ends at its first failure and prints
# a sentence; it exits with 77 if it cannot run here.
set -u
FIRN=${FIRN:-build/firn}
case $FIRN in
/*) ;;
*) FIRN=$PWD/$FIRN ;;
esac
LC_ALL=C
patience=600 # tries, of which all but the first take 0.25 s: see nap
# The default is where the unit tests look.
data=${FIRN_DATA:-$(sed -n 's/.*root = "\(.*\)";/\1/p' tests/lib/data.c)}
unset FIRN_DATA
export LC_ALL
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-e2e.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

fail()
{
    echo "FAILED: $*"
    for f in "$tmp/out" "$tmp/err"; do
        [ -f "$f" ] && { echo "--- $f"; tail -n 100 "$f"; }
    done
    exit 1
}

skip()
{
    echo "skipped: $*"
    exit 77
}

# nap: the pause between two tries, which are counted in $tries. Short at first;
# then longer, as each try starts processes and other tests want the cores.
nap()
{
    tries=$((tries + 1))
    if [ "$tries" -lt 15 ]; then
        sleep 0.05
    else
        sleep 0.25
    fi
}

# await WHAT COMMAND...: waits until the command succeeds; fails with WHAT.
await()
{
    what=$1 tries=0
    shift
    until "$@"; do
        [ "$tries" -lt "$patience" ] || fail "$what"
        nap
    done
}

# run STATUS ARGUMENT...: runs firn, which must exit with STATUS; its output is in
# $tmp/out and $tmp/err.
run()
{
    want=$1
    shift
    "$FIRN" "$@" >"$tmp/out" 2>"$tmp/err"
    got=$?
    [ "$got" -eq "$want" ] || fail "firn $*: status $got, not $want"
}

# out_has and err_has TEXT: the output must contain that string.
out_has()
{
    grep -qF -e "$1" "$tmp/out" || fail "standard output has no '$1'"
}

err_has()
{
    grep -qF -e "$1" "$tmp/err" || fail "standard error has no '$1'"
}

err_is_empty()
{
    [ ! -s "$tmp/err" ] || fail "standard error is not empty"
}

# trace FILE JOBS: writes a trace with that number of jobs, always the same.
trace()
{
    awk -v n="$2" 'BEGIN {
        print "#firn-trace 1"
        print "name,submit_s,gpus,duration_s"
        for (i = 0; i < n; i++)
            printf "j%d,%d,%d,%d\n", i, i * 3, 1 + i % 8,
                100 + i * 7919 % 1000
    }' >"$1"
}
