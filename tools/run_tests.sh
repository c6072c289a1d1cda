#!/bin/sh
# run_tests.sh - runs test programs and scripts, and counts their cases.
#
#   run_tests.sh [-v] [-j N] [-m N WAITING] [-r TIMED] [-t SECONDS]
#                [-w COMMAND] TEST...
#   run_tests.sh --sum FILE
#
# A test is any executable. If it prints a TAP plan ("1..4", as cmocka programs
# do here), each planned case counts, and a case without a result has failed;
# otherwise the test is one case: exit status 0 passed, 77 skipped, else failed.
#
#   -j N        runs N tests at once (default 1)
#   -m N LIST   tests in LIST (names separated by blanks) mostly wait for
#               something: N of them run at once, beside the N of -j
#   -r LIST     tests in LIST have processes and timers: one that failed is run
#               once more at the end, alone. If it passes then, it is reported
#               as "unsteady" and counted as such, not as failed. What is not
#               the machine's doing stays a failure: a report of a sanitizer or
#               of valgrind, an abort, more than 10 failed tests. With
#               CHECK_STRICT=1 an unsteady test counts as failed
#   -t SECONDS  ends a test that takes longer (default 600)
#   -w COMMAND  puts a command before each test: valgrind and its options
#   -v          prints the output of tests that passed, too
#
# Each test has a TMPDIR of its own; a test that passes but leaves a file there
# has failed. Failed tests are shown with the last 100 lines of their output and
# of their errors, and the slowest tests are named. The last line is "N passed, N
# failed, N skipped", and ", N unsteady" if there are any. The exit status is 1
# if a test failed or none ran. Environment: the counts are added to the file
# $TALLY, which --sum adds up, naming once more what failed; "wall CPU test", in
# seconds, is added to the file $TIMES for each test (without processes that
# outlive their parent).

self=$0
# sum FILE: adds up lines "passed failed skipped unsteady test".
sum()
{
    awk '{ p += $1; f += $2; s += $3; u += $4 }
         END { printf "%d passed, %d failed, %d skipped", p, f, s
               if (u > 0) printf ", %d unsteady", u
               print ""
               exit f > 0 || p + s == 0 }' "$@"
}

# Names the tests that failed or were unsteady.
name_bad()
{
    awk '{ name = $0
           if (!sub(/^([0-9]+ )([0-9]+ )([0-9]+ )([0-9]+ )/, "", name))
               name = "a test that left no result" }
         $2 > 0 { print "  failed: " name }
         $4 > 0 { print "  unsteady: " name }' "$1"
}

# weigh RC OUT TIMES: prints "passed failed skipped wall CPU" of one test: its
# cases from its TAP lines in OUT and its exit status, and the seconds since
# $since (nanoseconds) and of its children, from the shell's `times` in TIMES.
weigh()
{
    awk -v rc="$1" -v ns=$(($(date +%s%N) - since)) -v times="$3" '
        BEGIN {
            while ((getline line <times) > 0)
                if (++n == 2) {
                    split(line, part, /[ms ]+/)
                    cpu = part[1] * 60 + part[2] + part[3] * 60 + part[4]
                }
        }
        /^1\.\.[0-9]+/ { plan += substr($1, 4) + 0; tap = 1 }
        /^(not )?ok [0-9]+ # SKIP/ || /^ok .*# SKIP/ { s++; next }
        /^ok / { p++ }
        /^not ok / { f++ }
        END {
            if (!tap) {
                p = rc == 0
                f = rc != 0 && rc != 77
                s = rc == 77
            } else if (p + f + s < plan) {
                f += plan - p - f - s
            }
            if (tap && rc != 0 && f == 0)
                f = 1
            printf "%d %d %d %.2f %.2f\n", p, f, s, ns / 1e9, cpu
        }' "$2"
}

# The name of a test as the name of a file.
flat()
(
    set -f
    IFS=/
    set -- $1
    IFS=+
    echo "$*"
)

# Is the test in the list of -r, in its first run, and is its failure one that
# a loaded machine may cause?
may_pass_alone()
{
    grep -qxF "$test" "$dir/timed" && [ ! -e "$log.first" ] &&
        [ $rc -ne 99 ] && [ $rc -ne 132 ] && [ $rc -ne 134 ] &&
        [ $rc -ne 139 ] &&
        ! grep -qE 'Sanitizer|runtime error: |^firnd?: bug at|==[0-9]+== ' \
            "$log.out" "$log.err"
}

# Runs one test, prints its result, and leaves NAME.counts and NAME.took; and
# NAME.again if it is to be run once more.
one()
{
    dir=$1 seconds=$2 wrap=$3 is_verbose=$4 test=$5
    log=$dir/$(flat "$test")
    TMPDIR=$dir/t.$$
    mkdir "$TMPDIR" || exit 2
    export TMPDIR
    since=$(date +%s%N)
    # The words of $wrap are meant to be split.
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "$seconds" $wrap "$test" \
        >"$log.out" 2>"$log.err" </dev/null
    rc=$?
    times >"$log.times"
    weigh $rc "$log.out" "$log.times" >"$log.weight"
    read -r p f s wall cpu <"$log.weight"
    echo "$wall $cpu $test" >"$log.took"
    word=ok why=
    if ! rmdir "$TMPDIR" 2>/dev/null; then
        if [ "$f" -eq 0 ]; then
            f=1 why=", left behind in TMPDIR: $(ls -A "$TMPDIR" | xargs)"
        fi
        rm -rf "$TMPDIR"
    fi
    echo "$p $f $s 0 $test" >"$log.counts"
    [ "$s" -gt 0 ] && why=", $s skipped$why"
    [ "$p" -eq 0 ] && [ "$f" -eq 0 ] && word=skip
    if [ "$f" -gt 0 ]; then
        word=FAIL why="$why, $f failed (exit status $rc)"
        [ $rc -eq 124 ] && why="$why: took longer than $seconds s"
        if may_pass_alone; then
            word=once why="$why: it is run once more at the end"
            : >"$log.again"
        fi
    fi
    if [ "$word$is_verbose" = ok ]; then
        printf '  %-4s %s: %d passed%s\n' "$word" "$test" "$p" "$why"
        return
    fi
    {
        printf '  %-4s %s: %d passed%s\n' "$word" "$test" "$p" "$why"
        case $word in FAIL | once) show "$log" ;; esac
        [ "$word" = skip ] && tail -n 3 "$log.out" "$log.err" 2>/dev/null |
            sed -n '/^==>/d; /^$/d; /^1\.\./d; s/^/       /p'
        [ "$word$is_verbose" = ok1 ] &&
            cat "$log.out" "$log.err" | sed 's/^/       /'
    } >"$log.say"
    cat "$log.say"
}

# Prints the output of a failed test without the cases that passed: first the
# failures, which a long log would hide.
show()
{
    {
        grep -hv '^ok [0-9]' "$1.out" | tail -n 100
        grep -h '^ERROR: ' "$1.err" | head -n 20
        tail -n 100 "$1.err"
    } | sed 's/^/       /'
}

# Runs each test that may pass alone once more, one after the other.
run_again()
{
    nagain=$(find "$dir" -name '*.again' | wc -l)
    if [ "$nagain" -gt 10 ]; then
        echo "  $nagain tests failed: none is run once more"
        return
    fi
    for test; do
        log=$dir/$(flat "$test")
        [ -e "$log.again" ] || continue
        mv "$log.counts" "$log.first"
        sh "$self" --one "$dir" "$seconds" "$wrap" "$verbose" "$test"
        read -r p f s rest <"$log.counts" || continue
        if [ "$f" -eq 0 ] && [ "$strict" = 1 ]; then
            cat "$log.first" >"$log.counts"
            echo "  unsteady: $test failed once, passed alone:" \
                "CHECK_STRICT counts it as failed"
        elif [ "$f" -eq 0 ]; then
            echo "$p $f $s 1 $test" >"$log.counts"
            echo "  unsteady: $test failed once, passed alone"
        fi
    done
}

if [ "$1" = --one ]; then
    shift
    one "$@"
    exit 0
fi
if [ "$1" = --sum ]; then
    name_bad "$2"
    sum "$2"
    exit
fi

jobs=1 seconds=600 wrap= verbose= more=0 waiting= timed=
while getopts j:m:r:t:vw: opt; do
    case $opt in
    j) jobs=$OPTARG ;;
    m)
        more=$OPTARG
        eval "waiting=\${$OPTIND}"
        OPTIND=$((OPTIND + 1))
        ;;
    r) timed=$OPTARG ;;
    t) seconds=$OPTARG ;;
    v) verbose=1 ;;
    w) wrap=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# Prints FOLDER if its name is short enough for the names of sockets below it
# and needs no quotes in a shell; otherwise /tmp.
own()
{
    case $1 in
    *[!A-Za-z0-9/._-]* | [!/]*) echo /tmp ;;
    *) [ ${#1} -le 20 ] && echo "$1" || echo /tmp ;;
    esac
}

# A test that calls make, or this script, starts afresh; and no test takes
# itself for a part of a job of firn, torchrun or Slurm.
tally=${TALLY:-} times=${TIMES:-} strict=${CHECK_STRICT:-}
unset CHECK_STRICT MAKEFLAGS MFLAGS MAKELEVEL BUILD OPT DEBUG SAN WERROR JOBS TALLY TIMES T
for name in $(env | sed -n 's/^\([A-Z0-9_]*\)=.*/\1/p'); do
    case $name in
    RANK | WORLD_SIZE | LOCAL_* | GROUP_* | MASTER_* | SLURM* | SBATCH_* | \
        FIRN_AFTER* | FIRN_API_* | FIRN_ATTEMPT | FIRN_ATTENTION | \
        FIRN_BATCH | FIRN_CHECKPOINTING | FIRN_CKPT_* | FIRN_DIR | \
        FIRN_EPOCH | FIRN_FAILPOINT | FIRN_FREEZE* | FIRN_GPUS | \
        FIRN_GROUP_KEY | FIRN_HERD | FIRN_JOB | FIRN_LAYOUT | FIRN_MATE_* | \
        FIRN_MEM_SHARE | FIRN_MODEL | FIRN_NODE | FIRN_OPTIMIZER | \
        FIRN_PARTNER_* | FIRN_PASSES | FIRN_PRECISION | \
        FIRN_REPLICAS | FIRN_SHARDED | FIRN_SHARE | FIRN_SOCKET | \
        FIRN_STAGES | FIRN_TENSOR | FIRN_THREADS | FIRN_TOKEN | \
        FIRN_TRAIN_LIB | FIRN_URL)
        unset "$name"
        ;;
    esac
done
dir=$(mktemp -d "$(own "${TMPDIR:-/tmp}")/firn-tests.XXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

for test in $timed; do
    echo "$test"
done >"$dir/timed"

# Two lists, in the order of the arguments: the tests that wait run beside those
# that compute.
: >"$dir/waits"
: >"$dir/computes"
for test; do
    case " $waiting " in
    *" $test "*) echo "$test" >>"$dir/waits" ;;
    *) echo "$test" >>"$dir/computes" ;;
    esac
done

# run_list FILE N: runs its tests, N at once. A shell lets what it has in the
# background ignore SIGINT, and a test would inherit that.
run_list()
{
    env --default-signal=INT,QUIT xargs -r -a "$1" -P "$2" -I '{}' \
        sh "$self" --one "$dir" "$seconds" "$wrap" "$verbose" '{}'
}
run_list "$dir/waits" "$more" &
run_list "$dir/computes" "$jobs"
wait
run_again "$@"
cat "$dir"/*.counts >"$dir/all" 2>/dev/null
# A test that left no count was itself killed.
lost=$(($# - $(wc -l <"$dir/all")))
[ "$lost" -gt 0 ] && echo "0 $lost 0" >>"$dir/all"
[ -n "$tally" ] && cat "$dir/all" >>"$tally"
[ -n "$times" ] && cat "$dir"/*.took >>"$times"
sort -rn "$dir"/*.took 2>/dev/null | awk '
    $1 >= 1 && NR <= 5 { printf "%s %s %.1f s (CPU %.1f s)",
        (NR > 1) ? "," : "  slowest:", $3, $1, $2; n++ }
    { cpu += $2 }
    END { if (n) printf "\n  %.0f s of processor time in all\n", cpu }'
sum "$dir/all"
