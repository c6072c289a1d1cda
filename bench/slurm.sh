#!/bin/sh
# slurm.sh - jobs through firn on Slurm, beside Slurm's own, on this host.
#
#   slurm.sh [JOBS]          500 by default
#
# A Slurm of 32 nodes with 8 GPUs each (tools/slurm-bed). Jobs of 1 to 8 GPUs
# arrive ten a second in waves of 20, so that no job waits for GPUs and this
# host can act as 32: a wave through firn and the same jobs by sbatch, in turn.
# Each worker writes its node, its GPUs (CUDA_VISIBLE_DEVICES) and the time.
#
# Placement: firn's decision (its events) against the workers' lines, node by
# node and GPU by GPU. Time: from firn's decision to the first line of the job's
# first worker, beside the time from before the call of sbatch to that line.
# Output lines have the format of bench/run.sh.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${1:-500}
wave=20
pace=0.1 # seconds from one submit to the next
FIRN=${FIRN:-${BUILD:-build}/firn}
PATH=$PATH:/usr/sbin
for program in slurmctld sbatch curl; do
    command -v $program >/dev/null || {
        echo "# there is no $program: nothing of Slurm is measured"
        exit 0
    }
done
[ -x "${FIRN}d" ] || {
    echo "# firnd is not built: nothing of Slurm is measured"
    exit 0
}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-bslurm.XXXXXX") || exit 1
daemon=
clean_up()
{
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null
    tools/slurm-bed down --dir "$tmp/bed"
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

broken()
{
    echo "! $*"
    tail -n 20 "$tmp/firnd.log" >&2
    exit 1
}

api()
{
    curl -sf --max-time 30 --unix-socket "$tmp/sock" "$@"
}

# gpus I: what job I asks for.
gpus()
{
    case $(($1 % 10)) in
    2 | 6) echo 2 ;;
    4) echo 4 ;;
    7) echo 8 ;;
    *) echo 1 ;;
    esac
}

tools/slurm-bed up --dir "$tmp/bed" --nodes 32 --gpus 8 --types a100 \
    >/dev/null || exit 1
SLURM_CONF=$tmp/bed/etc/slurm.conf
export SLURM_CONF
chmod 700 "$tmp"
mkdir "$tmp/firn" "$tmp/slurm"
cat >"$tmp/tell" <<'END'
#!/bin/sh
now=$(date +%s.%N)
if [ -n "${FIRN_JOB:-}" ]; then
    name=$1/firn/$FIRN_JOB.$RANK
else
    name=$1/slurm/$SLURM_JOB_ID.$SLURM_PROCID
fi
echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $now" >"$name.part"
mv "$name.part" "$name"
sleep 0.3
END
printf '#!/bin/sh\nexec srun "%s/tell" "%s"\n' "$tmp" "$tmp" >"$tmp/batch"
chmod +x "$tmp/tell" "$tmp/batch"
(umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token")
"${FIRN}d" --engine slurm --state "$tmp/state" --socket "$tmp/sock" \
    --listen "127.0.0.1:$(cat "$tmp/bed/port")" --token-file "$tmp/token" \
    --policy fifo --allow-root 2>"$tmp/firnd.log" &
daemon=$!
tries=0
until api http://firn/v1/health >/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || broken "firnd does not answer"
    sleep 0.1
done

# wait_lines KIND N: waits until N first workers have written their line and all
# jobs are gone.
wait_lines()
{
    tries=0
    until [ "$(ls "$tmp/$1" | grep -c '\.0$')" -ge "$2" ] &&
        [ -z "$(timeout 20 squeue -h -o %i)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || broken "of $2 jobs through $1 only" \
            "$(ls "$tmp/$1" | grep -c '\.0$') have begun"
        sleep 0.2
    done
}

firn_wave()
{
    i=$1
    while [ "$i" -lt "$2" ]; do
        api -X POST -H 'Content-Type: application/yaml' --data-binary \
            "{name: j$i, run: ['$tmp/tell', '$tmp'], gpus: $(gpus $i)}" \
            http://firn/v1/jobs >/dev/null || broken "job $i was not taken"
        sleep $pace
        i=$((i + 1))
    done
    wait_lines firn "$2"
}

slurm_wave()
{
    i=$1
    while [ "$i" -lt "$2" ]; do
        g=$(gpus $i)
        now=$(date +%s.%N)
        id=$(timeout 30 sbatch --parsable -o /dev/null -N 1 --ntasks="$g" \
            --gres="gpu:$g" "$tmp/batch") || broken "sbatch failed"
        echo "$id $now" >>"$tmp/submitted"
        sleep $pace
        i=$((i + 1))
    done
    wait_lines slurm "$2"
}

first=0
while [ $first -lt "$jobs" ]; do
    next=$((first + wave))
    [ $next -le "$jobs" ] || next=$jobs
    # In turn, so that neither always finds the fresh cluster.
    if [ $((first / wave % 2)) -eq 0 ]; then
        firn_wave $first $next
        slurm_wave $first $next
    else
        slurm_wave $first $next
        firn_wave $first $next
    fi
    first=$next
done

# All events: a line each, "job at_s kind text".
after=0
: >"$tmp/events"
while :; do
    api "http://firn/v1/events?limit=1000&after=$after" >"$tmp/page" ||
        broken "no events"
    sed 's/}, /}\n/g' "$tmp/page" | sed -n -e 's/", "text": "/ /' \
        -e 's/, "job": / /; s/, "kind": "/ /' \
        -e 's/.*"at_s": \([0-9.]*\) \([0-9]*\) \([^"]*\)".*/\2 \1 \3/p' \
        >"$tmp/lines"
    [ -s "$tmp/lines" ] || break
    cat "$tmp/lines" >>"$tmp/events"
    after=$(sed -n 's/.*"last": \([0-9]*\).*/\1/p' "$tmp/page")
done

# What workers saw: "job rank node gpus time".
words()
{
    for file in "$tmp/$1"/*; do
        name=${file##*/}
        read -r node seen now <"$file"
        echo "${name%.*} ${name#*.} $node $seen $now"
    done
}
words firn >"$tmp/seen"
words slurm >"$tmp/seen.slurm"

# Each job: one start; on each node of it as many workers as GPUs, who all see
# these GPUs and no others.
awk '
    function expand(list,    n, part, i, ends, k, out) {
        n = split(list, part, ",")
        out = ""
        for (i = 1; i <= n; i++) {
            split(part[i], ends, "-")
            if (ends[2] == "")
                ends[2] = ends[1]
            for (k = ends[1] + 0; k <= ends[2] + 0; k++)
                out = out (out == "" ? "" : ",") k
        }
        return out
    }
    FILENAME ~ /events$/ && $3 == "starting" {
        starts[$1]++
        for (i = 6; i <= NF; i++) { # node[indices]
            node = $i
            sub(/\[.*/, "", node)
            list = $i
            gsub(/^[^\[]*\[|\].*$/, "", list)
            want[$1, node] = expand(list)
            total[$1] += split(want[$1, node], ignored, ",")
        }
        next
    }
    FILENAME ~ /seen$/ {
        workers[$1]++
        if (want[$1, $3] != $4)
            wrong[$1] = "worker " $2 " saw " $3 "[" $4 "], not " want[$1, $3]
    }
    END {
        for (job in starts) {
            n++
            if (starts[job] != 1 && !(job in wrong))
                wrong[job] = "it was started " starts[job] " times"
            if (workers[job] != total[job] && !(job in wrong))
                wrong[job] = workers[job] + 0 " workers on " total[job] " GPUs"
        }
        for (job in wrong) {
            bad++
            print "# job " job ": " wrong[job]
        }
        printf "slurm: jobs placed exactly as decided\t%d\t==\t%d\t\n",
            n - bad, jobs
    }' jobs="$jobs" "$tmp/events" "$tmp/seen"

# latencies KIND SEEN: seconds from decision or sbatch to the first word.
latencies()
{
    if [ "$1" = firn ]; then
        awk '$3 == "starting" { print $1, $2 }' "$tmp/events"
    else
        cat "$tmp/submitted"
    fi | awk -v seen="$2" '
        { at[$1] = $2 }
        END {
            while ((getline <seen) > 0)
                if ($2 == 0)
                    printf "%.4f\n", $5 - at[$1]
        }' | sort -n
}

# quantile Q: of the numbers on standard input.
quantile()
{
    awk -v q="$1" '{ x[NR] = $1 }
        END { i = int(q * NR + 0.999999); if (i < 1) i = 1
              printf "%.4f\n", NR ? x[i] : "nan" }'
}
latencies firn "$tmp/seen" >"$tmp/by-firn"
latencies slurm "$tmp/seen.slurm" >"$tmp/by-slurm"
for q in 0.5 0.9; do
    name=$(echo "$q" | sed 's/0\.5/median/; s/0\.9/p90/')
    ours=$(quantile $q <"$tmp/by-firn")
    theirs=$(quantile $q <"$tmp/by-slurm")
    printf 'slurm: sbatch to running, Slurm alone, %s\t%s\t-\t-\ts\n' \
        "$name" "$theirs"
    printf 'slurm: decision to running through firn, %s\t%s\t-\t-\ts\n' \
        "$name" "$ours"
    # The whole way leads through sbatch: what can be held to is firn's part.
    [ "$name" != median ] || echo "$ours $theirs" | awk '{
        printf "slurm: what firn adds to it, median\t%.4f\t<=\t%s\ts\n",
            $1 - $2, $2
    }'
done
exit 0
