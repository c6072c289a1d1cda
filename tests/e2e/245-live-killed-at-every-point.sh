#!/bin/sh
# firnd dies at each of its failpoints with a job on its way, and is started
# again: a job that was acknowledged runs, to its end, once.
. tests/lib/firnd.sh
cat >"$tmp/once" <<END
#!/bin/sh
echo x >>"$tmp/count-\$1"
sleep 0.2
END
chmod +x "$tmp/once"
points=$(grep -rhoE 'failpoint\("[a-z.]+"\)' src/daemon src/engine |
    sed 's/.*"\(.*\)".*/\1/' | grep -v '^shepherd' | sort -u)
[ -n "$points" ] || fail "no failpoints"
n=0
nacked=0
for point in $points; do
    n=$((n + 1))
    job=job$n
    case $point in
    loop.*) at=$point:8 ;; # not in its first turns
    store.*) at=$point:2 ;; # not when the job is taken
    *) at=$point ;;
    esac
    FIRN_FAILPOINT=$at "$firnd" --state "$tmp/state" --socket "$socket" \
        --gpus 1x2:v100@16 --policy fifo 2>>"$tmp/err" &
    daemon=$!
    is_acked=no
    tries=0
    while [ "$tries" -lt 40 ]; do
        tries=$((tries + 1))
        api POST "/jobs?hold=1" "name: $job
run: [$tmp/once, $n]
gpus: 1" >/dev/null 2>&1 && is_acked=yes && break
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.05
    done
    api POST "/jobs/$job/release" "" >/dev/null 2>&1
    tries=0
    while kill -0 "$daemon" 2>/dev/null && [ "$tries" -lt 20 ]; do
        tries=$((tries + 1)) # it dies, or the point lies on no way of ours
        sleep 0.05
    done
    kill -9 "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
    up --gpus 1x2:v100@16 --policy fifo
    if [ "$is_acked" = yes ]; then
        nacked=$((nacked + 1))
        api POST "/jobs/$job/release" "" >/dev/null 2>&1
        wait_state "$job" succeeded
        [ "$(wc -l <"$tmp/count-$n")" -eq 1 ] ||
            fail "$point: $job ran $(wc -l <"$tmp/count-$n") times"
    fi
    down
    [ ! -f "$tmp/count-$n" ] || [ "$(wc -l <"$tmp/count-$n")" -le 1 ] ||
        fail "$point: $job ran twice"
done
[ "$nacked" -ge 8 ] || fail "only $nacked of $n jobs were acknowledged"
exit 0
