#!/bin/sh
# Prometheus takes firnd's metrics with a token that gives nothing else, and the alert
# rules of tools/grafana. Without Prometheus only the text is looked at.
. tests/lib/firnd.sh
only local "it is about firnd alone"
umask 077
od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token"
up --gpus 1x2:v100@16 --policy fifo --listen 127.0.0.1:0 --token-file "$tmp/token"
port=$(sed -n 's|.*listens on http://127.0.0.1:||p' "$tmp/err" | tail -n 1)
[ -n "$port" ] || fail "the log does not name the port"
FIRN_SOCKET=$socket
export FIRN_SOCKET
run 0 token new --role scraper prometheus
cp "$tmp/out" "$tmp/scraper"
run 0 submit --name runs --gpus 2 --queue night -- sleep 1000
run 0 submit --name waits --gpus 1 -- sleep 1000

scrape()
{
    curl -sf --max-time 60 -H "Authorization: Bearer $(cat "$tmp/scraper")" \
        "http://127.0.0.1:$port/metrics" >"$tmp/metrics"
}
is_counted()
{
    scrape && grep -qx "firn_user_gpus{user=\"$(id -un)\"} 2" "$tmp/metrics"
}
await "the GPUs of the user are not counted" is_counted
for line in 'firn_queue_gpus{queue="night"} 2' \
    'firn_queue_pending_gpus{queue="default"} 1' \
    'firn_type_held_gpus{type="v100"} 2'; do
    grep -qxF "$line" "$tmp/metrics" || fail "no $line"
done
for request in 'POST /v1/jobs/runs/cancel' 'GET /v1/jobs' 'GET /v1/nodes' \
    'GET /v1/events' 'GET /v1/jobs/runs/logs' 'GET /v1/whoami' 'GET /health' \
    'POST /v1/board/links' 'GET /v1/tokens'; do
    code=$(curl -s -o /dev/null -w '%{http_code}' --max-time 60 \
        -X "${request%% *}" -H "Authorization: Bearer $(cat "$tmp/scraper")" \
        "http://127.0.0.1:$port${request#* }")
    [ "$code" = 403 ] || fail "the token of a scraper may $request: $code"
done

# A client that accepts gzip gets it, another the text.
curl -sf --max-time 60 -H "Authorization: Bearer $(cat "$tmp/scraper")" \
    -H 'Accept-Encoding: br;q=0.5, gzip' -D "$tmp/head" -o "$tmp/packed" \
    "http://127.0.0.1:$port/metrics" || fail "no answer with gzip"
if grep -qi '^content-encoding: gzip' "$tmp/head"; then
    gzip -dc <"$tmp/packed" | tail -n 1 | grep -qx '# EOF' || fail "a torn gzip"
    grep -qi '^vary: accept-encoding' "$tmp/head" || fail "no Vary"
    [ "$(wc -c <"$tmp/packed")" -lt $(($(wc -c <"$tmp/metrics") / 3)) ] ||
        fail "$(wc -c <"$tmp/packed") bytes of $(wc -c <"$tmp/metrics")"
else
    ldd "$firnd" | grep -q libz.so && fail "firnd has zlib and does not use it"
fi

if command -v promtool >/dev/null; then
    promtool check rules tools/grafana/alerts.yaml >"$tmp/out" 2>"$tmp/err.prom" ||
        fail "promtool refuses the rules: $(cat "$tmp/out" "$tmp/err.prom")"
    # promtool reads the older text, in which a counter has its whole name.
    sed '/firn_build/d; /^# EOF/d
        s/^# TYPE \(firn_[a-z_]*\) counter/# TYPE \1_total counter/' \
        "$tmp/metrics" | awk '
        /^# TYPE .*_total counter/ { counter = $3 }
        /^# HELP/ && counter == $3 "_total" { sub($3, counter) }
        { print }' | promtool check metrics >"$tmp/out" 2>&1 ||
        fail "promtool refuses the metrics: $(cat "$tmp/out")"
fi
command -v prometheus >/dev/null || exit 0
cat >"$tmp/prometheus.yaml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/tools/grafana/alerts.yaml]
scrape_configs:
  - job_name: firn
    authorization: {credentials_file: $tmp/scraper}
    static_configs: [{targets: ["127.0.0.1:$port"]}]
END
timeout 60 prometheus --config.file="$tmp/prometheus.yaml" --storage.tsdb.path="$tmp/tsdb" \
    --web.listen-address="127.0.0.1:$((20000 + $$ % 10000))" \
    >"$tmp/prometheus.log" 2>&1 &
prometheus=$!
is_stored()
{
    kill -0 $prometheus 2>/dev/null || return 0
    curl -sf --max-time 60 "http://127.0.0.1:$((20000 + $$ % 10000))/api/v1/query" \
        --data-urlencode 'query=sum(firn_user_gpus) + sum(firn_pending_gpus)' |
        grep -q '"3"'
}
await "Prometheus has not stored the metrics" is_stored
kill $prometheus 2>/dev/null ||
    ! grep -q 'address already in use' "$tmp/prometheus.log" ||
    exit 0 # another program has the port
wait $prometheus
grep -q 'level=error' "$tmp/prometheus.log" &&
    fail "Prometheus: $(grep level=error "$tmp/prometheus.log" | head -n 3)"
exit 0
