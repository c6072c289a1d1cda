#!/bin/sh
# Users who ask for it are told of ends, failures and preemptions by the
# operator's command; a command that cannot be run is named in the log.
. tests/lib/firnd.sh
only local "it is about firnd alone"
cat >"$tmp/notify" <<'END'
#!/bin/sh
echo "$FIRN_EVENT $FIRN_JOB $FIRN_JOB_NAME $FIRN_JOB_STATE $FIRN_JOB_STATUS $FIRN_MESSAGE" \
    >>"${0%/*}/told"
END
chmod 755 "$tmp/notify"
: >"$tmp/told"
up --gpus 1x2:v100@16 --policy fifo --notify-command "$tmp/notify"
export FIRN_SOCKET="$socket"

told() { grep -q -e "$1" "$tmp/told"; }
"$FIRN" submit --name good --notify end,failure --wait -- true >/dev/null 2>&1
"$FIRN" submit --name bad --notify failure --wait -- sh -c 'exit 5' >/dev/null 2>&1
"$FIRN" submit --name quiet --wait -- false >/dev/null 2>&1
"$FIRN" submit --name fine --notify failure --wait -- true >/dev/null 2>&1
await "the end is not told" told '^end 1 good succeeded 0 job 1 (good) of '
await "the failure is not told" told '^failure 2 bad failed 5 '

# Its node is drained: a job that may be stopped leaves it.
submit moved 1 "restart: allowed
notify: [preemption]" sleep 1000
wait_state moved running
"$FIRN" drain n0 >/dev/null || fail "no drain"
await "the preemption is not told" told '^preemption 5 moved preempting '
"$FIRN" cancel --force moved >/dev/null
"$FIRN" submit --notify sometimes -- true >"$tmp/out" 2>&1 && fail "any word is taken"
out_has "end|failure|preemption"
[ "$(wc -l <"$tmp/told")" -eq 3 ] || fail "told: $(cat "$tmp/told")"

# A command that is gone.
rm "$tmp/notify"
"$FIRN" undrain n0 >/dev/null
"$FIRN" submit --notify end --wait -- true >/dev/null 2>&1
await "the log does not name the command" grep -q 'notify-command .*cannot be run' "$tmp/err"
down
