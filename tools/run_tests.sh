#!/bin/sh
# run_tests.sh - runs test programs and scripts, and counts their cases.
#
#   run_tests.sh [-j N] [-t SECONDS] [-w COMMAND] TEST...
#   run_tests.sh --sum FILE
#
# A test is any executable. One that prints a TAP plan ("1..4", as cmocka
# programs are told to) counts as many cases as it plans, and a case it did
# not come to is a failure; any other counts as one: exit status 0 passed, 77
# skipped, else failed. -w puts a command (words) before each test, -j runs so
# many at once, -t ends a test that takes longer. What failed is shown with
# its output. Each test has a TMPDIR of its own; one that passes and leaves
# something there has failed. The tests that took longest are named. The last
# line is "N passed, N failed, N skipped"; with the variable TALLY set, the
# counts are added to that file too, and --sum prints the last line for such a
# file. Exits 1 when anything failed or nothing ran.

self=$0
sum()
{
    awk '{ p += $1; f += $2; s += $3 }
         END { printf "%d passed, %d failed, %d skipped\n", p, f, s
               exit f > 0 || p + s == 0 }' "$@"
}

# Counts one test's cases from its TAP lines (stdin) and its exit status.
count()
{
    awk -v rc="$1" '
        /^1\.\.[0-9]+/ { plan += substr($1, 4) + 0; tap = 1 }
        /^(not )?ok [0-9]+ # SKIP/ || /^ok .*# SKIP/ { s++; next }
        /^ok / { p++ }
        /^not ok / { f++ }
        END {
            if (!tap) {
                print rc == 0, rc != 0 && rc != 77, rc == 77
                exit
            }
            if (p + f + s < plan)
                f += plan - p - f - s
            if (rc != 0 && f == 0)
                f = 1
            print p + 0, f + 0, s + 0
        }'
}

# Seconds of processor time of all processes that were waited for, from what
# the shell's `times` prints: its own time, and below that of its children.
cpu()
{
    tr 'ms' '  ' | awk 'NR == 2 { print $1 * 60 + $2 + $3 * 60 + $4 }'
}

# Seconds since $since, which is in nanoseconds.
since_s()
{
    awk -v ns=$(($(date +%s%N) - since)) 'BEGIN { printf "%.2f", ns / 1e9 }'
}

# Runs one test; leaves NAME.counts and NAME.took (wall and processor seconds)
# in the folder and prints one line.
one()
{
    dir=$1 seconds=$2 wrap=$3 test=$4
    log=$dir/$(echo "$test" | tr '/' '+')
    TMPDIR=$(mktemp -d "$dir/t.XXXXXX") || exit 2
    export TMPDIR
    since=$(date +%s%N)
    # The words of $wrap are meant to be split.
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "$seconds" $wrap "$test" \
        >"$log.out" 2>"$log.err" </dev/null
    rc=$?
    times >"$log.times"
    echo "$(since_s) $(cpu <"$log.times") $test" >"$log.took"
    count $rc <"$log.out" >"$log.counts"
    read -r p f s <"$log.counts"
    word=ok why=
    if [ "$f" -eq 0 ] && [ -n "$(ls -A "$TMPDIR")" ]; then
        f=1 why=", left behind in TMPDIR: $(ls -A "$TMPDIR" | xargs)"
        echo "$p $f $s" >"$log.counts"
    fi
    rm -rf "$TMPDIR"
    [ "$s" -gt 0 ] && why=", $s skipped$why"
    [ "$p" -eq 0 ] && [ "$f" -eq 0 ] && word=skip
    if [ "$f" -gt 0 ]; then
        word=FAIL why="$why, $f failed (exit status $rc)"
        [ $rc -eq 124 ] && why="$why: took longer than $seconds s"
    fi
    {
        printf '  %-4s %s: %d passed%s\n' "$word" "$test" "$p" "$why"
        [ "$word" = FAIL ] && show "$log"
        [ "$word" = skip ] && tail -n 3 "$log.out" "$log.err" 2>/dev/null |
            sed -n '/^==>/d; /^$/d; /^1\.\./d; s/^/       /p'
    } >"$log.say"
    cat "$log.say"
}

# The output of a failed test, without the cases that passed: first what it
# says of its failures, which a long log would hide.
show()
{
    {
        grep -hv '^ok [0-9]' "$1.out" | tail -n 200
        grep -h '^ERROR: ' "$1.err" | head -n 20
        tail -n 60 "$1.err"
    } | sed 's/^/       /'
}

if [ "$1" = --one ]; then
    shift
    one "$@"
    exit 0
fi
if [ "$1" = --sum ]; then
    sum "$2"
    exit
fi

jobs=1 seconds=600 wrap=
while getopts j:t:w: opt; do
    case $opt in
    j) jobs=$OPTARG ;;
    t) seconds=$OPTARG ;;
    w) wrap=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# own FOLDER: that one, if its name leaves room for the names of sockets and
# shells need no quotes for it; else /tmp.
own()
{
    case $1 in
    *[!A-Za-z0-9/._-]* | [!/]*) echo /tmp ;;
    *) [ ${#1} -le 20 ] && echo "$1" || echo /tmp ;;
    esac
}

# A test that calls make, or this script, starts afresh; nor is it in a job of
# firn's, torchrun's or Slurm's.
tally=$TALLY
unset MAKEFLAGS MFLAGS MAKELEVEL BUILD OPT DEBUG SAN WERROR JOBS TALLY
for name in $(env | sed -n 's/^\([A-Z0-9_]*\)=.*/\1/p'); do
    case $name in
    RANK | WORLD_SIZE | LOCAL_* | GROUP_* | MASTER_* | SLURM* | SBATCH_* | \
        FIRN_AFTER* | FIRN_API_* | FIRN_CKPT_* | FIRN_DIR | FIRN_EPOCH | \
        FIRN_FAILPOINT | FIRN_FREEZE* | FIRN_GPUS | FIRN_GROUP_KEY | FIRN_HERD | \
        FIRN_JOB | FIRN_LAYOUT | FIRN_MATE_* | FIRN_MEM_SHARE | FIRN_NODE | \
        FIRN_PASSES | FIRN_REPLICAS | FIRN_SHARDED | FIRN_SHARE | \
        FIRN_SOCKET | FIRN_STAGES | FIRN_TENSOR | FIRN_THREADS | \
        FIRN_TOKEN | FIRN_TRAIN_LIB | FIRN_URL)
        unset "$name"
        ;;
    esac
done
dir=$(mktemp -d "$(own "${TMPDIR:-/tmp}")/firn-tests.XXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
[ $# -gt 0 ] && printf '%s\n' "$@" |
    xargs -P "$jobs" -I '{}' sh "$self" --one "$dir" "$seconds" "$wrap" '{}'
cat "$dir"/*.counts >"$dir/all" 2>/dev/null
# A test that left no count was itself killed.
lost=$(($# - $(wc -l <"$dir/all")))
[ "$lost" -gt 0 ] && echo "0 $lost 0" >>"$dir/all"
[ -n "$tally" ] && cat "$dir/all" >>"$tally"
[ -z "${TIMES:-}" ] || cat "$dir"/*.took >>"$TIMES"
sort -rn "$dir"/*.took 2>/dev/null | awk '$1 >= 1 && NR <= 5 {
    printf "%s %s %.1f s (%.1f s CPU)", (NR > 1) ? "," : "  slowest:",
        $3, $1, $2; n++ }
    END { if (n) print "" }'
sum "$dir/all"
