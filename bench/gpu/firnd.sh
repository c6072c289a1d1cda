# firnd.sh - starts a firnd for a script that measures; sourced. The script has
# set $bin (the folder of firn and firnd), $tmp, $out and FIRN_SOCKET.
# shellcheck shell=sh disable=SC2154

# up OPTION...: starts a firnd and waits until it answers; its pid is $daemon.
up()
{
    "$bin/firnd" --state "$tmp/state" --socket "$FIRN_SOCKET" \
        --allow-root "$@" \
        2>>"$out/firnd.log" &
    daemon=$!
    for _ in $(seq 100); do
        "$bin/firn" nodes >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "firnd does not answer" >&2
    exit 1
}

# down: stops firnd and removes its state.
down()
{
    kill "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
    rm -rf "$tmp/state"
}
