# firnd.sh - what the shell tests of the live scheduler share. Sourced.
#
# firnd runs on declared GPUs with its state in $tmp/state; jobs are the example
# trainers. A test that fails prints the log of the scheduler. At the end of the
# test the scheduler and every remaining job are ended.
#
# With FIRND_ENGINE=slurm the same GPUs are those of a Slurm on this host
# (tools/slurm-bed), made for the test at its first `up`; nodes have the same
# names. A test that only makes sense on one engine says so by `only ENGINE`.
# With FIRND_HOSTS=1 too, each node is a host with an address and processes of
# its own; the test must have a network namespace to itself. With FIRND_SLOW=MS
# Slurm takes up to MS milliseconds for each operation, with
# FIRND_CGROUPS=1 it follows jobs by control groups: one such test at a time.
#
# A test never sleeps to let something happen: it waits for the event itself,
# with a long limit, which costs nothing when all is well. Any process may stand
# still for seconds at any point. So a job that the test must see running does
# not end by itself, or the test asks for its past (`held_once`).
. tests/lib/trainers.sh
firnd=${FIRN%/firn}/firnd
asks=${FIRN%/firn}/tests/askfield
engine=${FIRND_ENGINE:-local}
[ -x "$firnd" ] || skip "firnd is not built"
command -v curl >/dev/null || skip "there is no curl"
chmod 700 "$tmp"
unset FIRN_IMAGES # jobs do not get it: all use the same pictures
socket=$tmp/sock
daemon='' bed='' bed_memory='' without_slurm=fail
endless=100000 # epochs of a trainer that is there to be stopped
# Lines of a job that may be one of two on a GPU.
sharing="share: allowed
memory: 4
duration: 60
checkpoint: {grace: 10}"

# only ENGINE WHY: skips the test on other engines.
only()
{
    [ "$engine" = "$1" ] || skip "$2"
}

# slurm_up SPEC [OPTION]...: starts a bed with these GPUs unless one is there. If
# that fails, the test fails (or runs $without_slurm).
slurm_up()
{
    [ -z "$bed" ] || return 0
    PATH=$PATH:/usr/sbin
    command -v slurmctld >/dev/null && command -v sbatch >/dev/null ||
        skip "Slurm is not installed"
    # Not below $tmp: the names of Slurm's sockets must be short.
    bed=$(mktemp -d /tmp/firn-bed.XXXXXX) || fail "no folder for Slurm"
    tools/slurm-bed up --dir "$bed" ${FIRND_HOSTS:+--hosts} \
        ${FIRND_SLOW:+--slow "$FIRND_SLOW"} ${FIRND_CGROUPS:+--cgroups} \
        --cluster "$@" \
        >"$tmp/out" 2>"$tmp/err" ||
        $without_slurm "no Slurm of $1: $(tail -n 1 "$tmp/err")"
    # Slurm does not know the memory of a GPU: 2x4:v100@16 is v100:16.
    bed_memory=$(echo "$1" | tr ',' '\n' |
        sed -n 's/^[^:]*:\([^@]*\)@\(.*\)/\1:\2/p' | sort -u | paste -s -d , -)
    SLURM_CONF=$bed/etc/slurm.conf
    [ -z "${FIRND_SLOW:-}" ] || PATH=$bed/bin:$PATH
    export SLURM_CONF PATH
    (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token")
}

# slurm_nodes: prints the nodes that run a job of Slurm, "n0 n2".
slurm_nodes()
{
    list=$(timeout 240 squeue -h -t R -o %N | paste -s -d , -)
    [ -z "$list" ] || timeout 240 scontrol show hostnames "$list" | sort -u |
        xargs
}

# answers: does the scheduler answer?
answers()
{
    api GET /health >/dev/null 2>&1 && return
    kill -0 "$daemon" 2>/dev/null || fail "firnd ended"
    return 1
}

# says PATH TEXT: does the answer of the API to GET PATH contain TEXT?
says()
{
    api GET "$1" | grep -qF -e "$2"
}

# up [OPTION]...: starts the scheduler and waits until it answers.
up()
{
    if [ "$engine" = slurm ]; then
        # Slurm declares the GPUs, not firnd.
        n=$#
        while [ "$n" -gt 0 ]; do
            if [ "$1" = --gpus ]; then
                slurm_up "$2"
                shift
                n=$((n - 1))
            else
                set -- "$@" "$1"
            fi
            shift
            n=$((n - 1))
        done
        here=$(cat "$bed/address" 2>/dev/null || echo 127.0.0.1)
        set -- --engine slurm --listen "$here:$(cat "$bed/port")" --listen-plain \
            --token-file "$tmp/token" "$@"
        [ -z "$bed_memory" ] || set -- --set "slurm.memory=$bed_memory" "$@"
    fi
    # Jobs get the delays (make slow) and sanitizer settings of the test.
    pass=LD_PRELOAD,SLOW_CALLS,ASAN_OPTIONS,UBSAN_OPTIONS,LSAN_OPTIONS
    set -- --set "$engine.pass-env=$pass,TSAN_OPTIONS" "$@"
    "$firnd" --state "$tmp/state" --socket "$socket" --allow-root "$@" \
        2>>"$tmp/err" &
    daemon=$!
    await "firnd does not answer" answers
}

# down [SIGNAL]: ends the scheduler; jobs go on.
down()
{
    kill "-${1:-TERM}" "$daemon"
    wait "$daemon" 2>/dev/null
    ended=$?
    daemon=
    [ "${1:-TERM}" != TERM ] || [ $ended -eq 0 ] ||
        fail "the scheduler ended with status $ended"
}

# api METHOD PATH [BODY]: the answer's body; fails unless the status is 2xx.
api()
{
    if [ $# -gt 2 ]; then
        curl -sf --max-time 60 --unix-socket "$socket" -X "$1" \
            -H 'Content-Type: application/yaml' --data-binary "$3" \
            "http://firn/v1$2"
    else
        curl -sf --max-time 60 --unix-socket "$socket" -X "$1" \
            "http://firn/v1$2"
    fi
}

# ask_field KIND JOB NAME [PATTERN]: build/tests/askfield on this scheduler.
ask_field()
{
    [ -x "$asks" ] || fail "there is no $asks: run make built"
    "$asks" "$socket" $((patience / 4)) "$@"
}

# field JOB NAME: a field of a job, without quotes.
field()
{
    ask_field field "$@"
}

# submit NAME GPUS MORE COMMAND...: a job of that name; MORE are further lines.
submit()
{
    name=$1 gpus=$2 more=$3
    shift 3
    line=
    for word in "$@"; do
        line="$line\"$word\", "
    done
    api POST /jobs "name: $name
run: [${line%, }]
gpus: $gpus
$more" >/dev/null || fail "job $name was not taken"
}

# is JOB NAME PATTERN: does a field match a shell pattern? It is in $value.
is()
{
    value=$(field "$1" "$2")
    # shellcheck disable=SC2254 # it is a pattern
    case $value in
    $3) return 0 ;;
    *) return 1 ;;
    esac
}

# wait_field JOB NAME PATTERN: waits until a field matches. It is in $value.
wait_field()
{
    value=$(ask_field field "$@") ||
        fail "job $1 has $2 '$value', not $3: $(api GET /jobs)"
}

# wait_state JOB STATE: waits until the job is in that state.
wait_state()
{
    wait_field "$1" state "$2"
}

# wait_why JOB TEXT: waits until `why` of the job contains TEXT.
wait_why()
{
    ask_field text "/jobs/$1/why" "$2" || fail "why: $(api GET "/jobs/$1/why")"
}

# held_once JOB GPUS: did a finished attempt of the job hold these GPUs?
held_once()
{
    says "/jobs/$1" "\"gpus\": \"$2\", \"started_s\""
}

# events: the history, a line each.
events()
{
    api GET "/events?limit=1000" | sed 's/}, /}\
/g'
}

# shepherds: prints the supervisor processes of jobs on this host. They are
# recognised by their arguments: the pid of a killed one may have been reused.
shepherds()
{
    [ -z "$bed" ] || return 0
    for file in "$tmp"/state/control/*/epoch-*/pid; do
        [ -f "$file" ] && [ ! -s "${file%pid}exit" ] || continue
        pid=$(tr ' ' '\n' <"$file" | sed -n 4p)
        ! grep -qsF -e "${tmp##*/}/" "/proc/$pid/cmdline" || echo "$pid"
    done
}

# cleanup: ends all processes of the test.
cleanup()
{
    [ -z "$daemon" ] || {
        kill -9 "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    }
    [ -z "$bed" ] || tools/slurm-bed down --dir "$bed"
    [ -z "$bed" ] || rm -rf "$bed"
    for pid in $(shepherds); do
        kill -TERM "$pid" 2>/dev/null
    done
    tries=0
    # A process that has not ended yet still writes there.
    until [ -z "$(shepherds)" ] && rm -rf "$tmp" 2>/dev/null; do
        [ "$tries" -lt "$patience" ] || break
        nap
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

# reported JOB NAME: a number of its last report.
reported()
{
    ask_field report "$@"
}

# has_reported JOB NAME PATTERN: does that number match? It is in $value.
has_reported()
{
    value=$(reported "$1" "$2")
    # shellcheck disable=SC2254 # it is a pattern
    case $value in
    $3) return 0 ;;
    *) return 1 ;;
    esac
}

# wait_reported JOB NAME PATTERN: waits until that number matches a pattern. It is
# in $value.
wait_reported()
{
    value=$(ask_field report "$@") ||
        fail "job $1 reports $2 '$value', not $3: $(api GET "/jobs/$1")"
}

# saved JOB-ID [STEP]: has it a checkpoint later than STEP? Sets $step.
saved()
{
    step=$(ls "$tmp/state/jobs/$1/ckpt" 2>/dev/null |
        sed -n "s/^$1-0*\([0-9][0-9]*\)\.ckpt\$/\1/p" | sort -n | tail -n 1)
    [ "${step:--1}" -gt "${2:-0}" ]
}

# weights_of JOB-ID NAME: its last checkpoint becomes run NAME.
weights_of()
{
    mkdir -p "$tmp/$2" && cp "$tmp/state/jobs/$1"/ckpt/*.ckpt "$tmp/$2/"
}

# same_weights A B, differ_weights A B: compare the last checkpoints of two runs,
# weights and optimiser only: a run that reports also measures.
same_weights()
{
    "$FIRN" train diff --only weights,optimizer "$(newest "$1")" \
        "$(newest "$2")" >"$tmp/out" ||
        fail "the weights or optimisers of $1 and $2 differ"
}

differ_weights()
{
    ! "$FIRN" train diff --only weights "$(newest "$1")" "$(newest "$2")" \
        >"$tmp/out" ||
        fail "the weights of $1 and $2 are equal"
}
