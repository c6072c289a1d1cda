# e2e.sh - what the shell tests share. Sourced, not run.
#
# Sets FIRN and a folder $tmp that is gone afterwards; FIRN_DATA becomes $data,
# for it would change every run. A test ends at its first failure with a
# sentence; status 77 says that it cannot run here.
set -u
FIRN=${FIRN:-build/firn}
case $FIRN in
/*) ;;
*) FIRN=$PWD/$FIRN ;;
esac
LC_ALL=C
patience=1800 # tries, with 0.05 s between two
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
        [ -f "$f" ] && { echo "--- $f"; head -40 "$f"; }
    done
    exit 1
}

skip()
{
    echo "skipped: $*"
    exit 77
}

# await WHAT COMMAND...: until the command succeeds; what is wrong if it does not.
await()
{
    what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt "$patience" ] || fail "$what"
        sleep 0.05
    done
}

# run STATUS ARGUMENT...: runs firn; its output is in $tmp/out and $tmp/err.
run()
{
    want=$1
    shift
    "$FIRN" "$@" >"$tmp/out" 2>"$tmp/err"
    got=$?
    [ "$got" -eq "$want" ] || fail "firn $*: status $got, not $want"
}

# out_has and err_has TEXT: a fixed string somewhere in it.
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
