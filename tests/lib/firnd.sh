# firnd.sh - what the shell tests of the live scheduler share. Sourced.
#
# firnd runs on declared GPUs with its state in $tmp/state; jobs are the example
# trainers. A test that fails shows the scheduler's log. Whatever was started is
# ended at the test's end: the scheduler, and every job that is left.
#
# With FIRND_ENGINE=slurm the same GPUs are those of a Slurm on this host
# (tools/slurm-bed), made for the test at its first `up`; nodes have the same
# names. A test that only makes sense on one engine says so by `only ENGINE`.
# With FIRND_HOSTS=1 too, each node is a host with an address and processes of
# its own; the test must have a network namespace to itself. With FIRND_SLOW=MS
# Slurm takes up to so many milliseconds for whatever it does, with
# FIRND_CGROUPS=1 it follows jobs by control groups: one such test at a time.
#
# A test never takes time for an event. It waits for what it means, and for long:
# that costs nothing when all is well. Any process may stand still for seconds at
# any point, so a job that is to be seen at work does not end by itself, or its
# past is asked for (`held_once`).
. tests/lib/trainers.sh
firnd=${FIRN%/firn}/firnd
engine=${FIRND_ENGINE:-local}
[ -x "$firnd" ] || skip "firnd is not built"
command -v curl >/dev/null || skip "there is no curl"
chmod 700 "$tmp"
unset FIRN_IMAGES # jobs are not told of it: all use the same pictures
socket=$tmp/sock
daemon='' bed='' bed_memory='' without_slurm=fail
endless=100000 # epochs of a trainer that is there to be stopped
# Lines of a job that may be one of two on a GPU.
sharing="share: allowed
memory: 4
duration: 60
checkpoint: {grace: 10}"

# only ENGINE WHY: the test is skipped on others.
only()
{
    [ "$engine" = "$1" ] || skip "$2"
}

# slurm_up SPEC [OPTION]...: a bed with these GPUs, if there is none yet. Where
# it can not be made the test fails, or does what $without_slurm says.
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
    # Slurm has no word for a GPU's memory: 2x4:v100@16 is v100:16.
    bed_memory=$(echo "$1" | tr ',' '\n' |
        sed -n 's/^[^:]*:\([^@]*\)@\(.*\)/\1:\2/p' | sort -u | paste -s -d , -)
    SLURM_CONF=$bed/etc/slurm.conf
    [ -z "${FIRND_SLOW:-}" ] || PATH=$bed/bin:$PATH
    export SLURM_CONF PATH
    (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token")
}

# slurm_nodes: where Slurm runs something, "n0 n2".
slurm_nodes()
{
    list=$(timeout 20 squeue -h -t R -o %N | paste -s -d , -)
    [ -z "$list" ] || timeout 20 scontrol show hostnames "$list" | sort -u |
        xargs
}

# answers: does the scheduler?
answers()
{
    api GET /health >/dev/null 2>&1 && return
    kill -0 "$daemon" 2>/dev/null || fail "firnd ended"
    return 1
}

# says PATH TEXT: does the API, there?
says()
{
    api GET "$1" | grep -qF -e "$2"
}

# up [OPTION]...: starts the scheduler and waits until it answers.
up()
{
    if [ "$engine" = slurm ]; then
        # GPUs are Slurm's to tell.
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
        set -- --engine slurm --listen "$here:$(cat "$bed/port")" \
            --token-file "$tmp/token" "$@"
        [ -z "$bed_memory" ] || set -- --set "slurm.memory=$bed_memory" "$@"
    fi
    # Jobs are slow (make slow) and checked as we are.
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

# field JOB NAME: a field of a job, without quotes.
field()
{
    api GET "/jobs/$1" | tr '{,' '\n\n' |
        sed -n 's/^ *"'"$2"'": *"\{0,1\}\([^"}]*\)"\{0,1\}}*$/\1/p' | head -n 1
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

# wait_field JOB NAME PATTERN: until a field matches.
wait_field()
{
    tries=0
    until is "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt "$patience" ] ||
            fail "job $1 has $2 '$value', not $3: $(api GET /jobs)"
        sleep 0.05
    done
}

# wait_state JOB STATE: until it is in that state.
wait_state()
{
    wait_field "$1" state "$2"
}

# wait_why JOB TEXT: until it is told why it waits with that text.
wait_why()
{
    tries=0
    until says "/jobs/$1/why" "$2"; do
        tries=$((tries + 1))
        [ "$tries" -lt "$patience" ] || fail "why: $(api GET "/jobs/$1/why")"
        sleep 0.05
    done
}

# held_once JOB GPUS: had one of its starts, now over, these?
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

# shepherds: the processes that watch over jobs on this host. They are known by
# their words: the number of one that was killed may be a stranger's by now.
shepherds()
{
    [ -z "$bed" ] || return 0
    for file in "$tmp"/state/control/*/epoch-*/pid; do
        [ -f "$file" ] && [ ! -s "${file%pid}exit" ] || continue
        pid=$(tr ' ' '\n' <"$file" | sed -n 4p)
        ! grep -qsF -e "${tmp##*/}/" "/proc/$pid/cmdline" || echo "$pid"
    done
}

# cleanup: no process is left behind, whatever happened.
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
    # What has not ended still writes there.
    until [ -z "$(shepherds)" ] && rm -rf "$tmp" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt "$patience" ] || break
        sleep 0.05
    done
    rm -rf "$tmp"
}
trap cleanup EXIT

# reported JOB NAME: a number of its last report.
reported()
{
    api GET "/jobs/$1" | sed -n 's/.*"report": *{\(.*\)/\1/p' | tr '{},' '\n' |
        sed -n 's/^ *"'"$2"'": *//p' | head -n 1
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

# wait_reported JOB NAME PATTERN: until that number matches a shell pattern.
wait_reported()
{
    tries=0
    until has_reported "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt "$patience" ] ||
            fail "job $1 reports $2 '$value', not $3: $(api GET "/jobs/$1")"
        sleep 0.05
    done
}

# saved JOB-ID [STEP]: has it a checkpoint, behind that step? Its step is in $step.
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

# same_weights A B, differ_weights A B: the last checkpoints of two runs. One
# that reports measures more than one that does not; the training is the same.
same_weights()
{
    "$FIRN" train diff "$(newest "$1")" "$(newest "$2")" >"$tmp/out"
    grep -q '^weights  *0 of 1 ' "$tmp/out" ||
        fail "the weights of $1 and $2 differ"
    grep -q '^optimiser  *0 of 1 ' "$tmp/out" ||
        fail "the optimisers of $1 and $2 differ"
}

differ_weights()
{
    "$FIRN" train diff "$(newest "$1")" "$(newest "$2")" >"$tmp/out"
    ! grep -q '^weights  *0 of 1 ' "$tmp/out" ||
        fail "the weights of $1 and $2 are equal"
}
