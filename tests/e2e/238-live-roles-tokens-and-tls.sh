#!/bin/sh
# Tokens give a role over TLS until they are revoked; the audit has what was
# done and refused; firnd does not listen beyond this host without TLS unless
# told so.
. tests/lib/firnd.sh
only local "it is about firnd alone"
command -v openssl >/dev/null || skip "there is no openssl"
umask 077
od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$tmp/token"
"$firnd" --gpus 1x2 --state "$tmp/state" --socket "$socket" --allow-root \
    --listen 0.0.0.0:0 --token-file "$tmp/token" 2>"$tmp/refused"
[ $? = 2 ] || fail "firnd listens beyond this host without TLS"
grep -q 'without TLS.*--listen-plain' "$tmp/refused" ||
    fail "the refusal does not say what to do: $(cat "$tmp/refused")"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$tmp/key.pem" -out "$tmp/cert.pem" 2>"$tmp/err" ||
    skip "openssl makes no certificate: $(tail -n 1 "$tmp/err")"
up --gpus 1x2:v100@16 --listen 127.0.0.1:0 --token-file "$tmp/token" \
    --tls-cert "$tmp/cert.pem" --tls-key "$tmp/key.pem"
port=$(sed -n 's|.*listens on https://127.0.0.1:||p' "$tmp/err" | tail -n 1)
[ -n "$port" ] || fail "the log does not name the port"

# over TOKEN METHOD PATH [BODY]: the status of the answer.
over()
{
    curl -s -o "$tmp/out" -w '%{http_code}' --max-time 60 --cacert "$tmp/cert.pem" \
        -X "$2" -H "Authorization: Bearer $(cat "$1")" --data-binary "${4:-}" \
        -H 'Content-Type: application/yaml' "https://127.0.0.1:$port/v1$3"
}
wants()
{
    want=$1
    shift
    got=$(over "$@")
    [ "$got" = "$want" ] || fail "$*: status $got, not $want: $(cat "$tmp/out")"
}
# Without a launcher firnd takes jobs of its own user, and not those of others.
me=$(id -un)
run 0 token new --socket "$socket" --user "$me" --role user --for 1d laptop
cp "$tmp/out" "$tmp/ann"
run 0 token new --socket "$socket" --user eve --role viewer
cp "$tmp/out" "$tmp/eve"
job='run: [sleep, "1000"]
gpus: 1
env: {KEY: s3cret}
name: a'
wants 201 "$tmp/ann" POST /jobs "$job"
run 0 token new --socket "$socket" --user bob --role user
cp "$tmp/out" "$tmp/bob"
wants 403 "$tmp/bob" POST /jobs "$job"
out_has 'runs all jobs as its own user'
wants 403 "$tmp/eve" POST /jobs "$job"
wants 403 "$tmp/eve" POST /jobs/a/cancel
wants 403 "$tmp/eve" GET /jobs/a/logs
wants 200 "$tmp/eve" GET /jobs/a
! grep -q s3cret "$tmp/out" || fail "a viewer sees the environment of a job"
wants 403 "$tmp/ann" POST /nodes/n0/drain
wants 200 "$tmp/ann" POST /jobs/a/cancel
run 0 token ls --socket "$socket"
out_has laptop
run 0 token revoke --socket "$socket" 1
wants 401 "$tmp/ann" GET /jobs
run 0 events --audit --socket "$socket"
out_has "$me  user  127.0.0.1  POST /v1/jobs  done (201)"
out_has 'eve  viewer  127.0.0.1  POST /v1/jobs/a/cancel  refused (403)'
! grep -q s3cret "$tmp/state/audit.log" || fail "the audit has a secret"
FIRN_API_CA_FILE=$tmp/cert.pem run 0 ls --url "https://127.0.0.1:$port" \
    --token-file "$tmp/eve"
down
