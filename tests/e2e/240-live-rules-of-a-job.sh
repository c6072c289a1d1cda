#!/bin/sh
# What can never be stopped is not: no hold, no drain, no policy moves it. A
# drained node is left by those that can leave. Failures are tried again as
# often as the job says; out of memory once, with more. Nothing that a user
# writes is ever run by a shell.
. tests/lib/firnd.sh
up --gpus 2x1:v100@16 --policy fifo
ckpt="checkpoint: {grace: 10}"
submit rigid 1 "" "$cnn" --epochs $endless --samples 256 --judge 0 --pace 250
wait_state rigid running
submit soft 1 "$ckpt" "$cnn" --epochs $endless --samples 256 --judge 0 --pace 250
wait_state soft running
[ "$(field soft gpus)" = "n1[0]" ] || fail "soft is on $(field soft gpus)"

api POST /nodes/n0/drain "" >/dev/null || fail "not drained"
api POST /nodes/n1/drain "" >/dev/null || fail "not drained"
wait_state soft pending
[ "$(field rigid state)" = running ] || fail "a drain stopped a rigid job"
wait_why soft '"reason": "drained"'
down # and it is remembered
up --gpus 2x1:v100@16 --policy fifo
[ "$(field rigid state)" = running ] || fail "rigid is lost"
[ "$(field soft state)" = pending ] || fail "a drained node was used"
api POST /nodes/n1/undrain "" >/dev/null || fail "still drained"
wait_state soft running
[ "$(field soft epoch)" = 2 ] || fail "soft has start $(field soft epoch)"
[ "$(field rigid epoch)" = 1 ] || fail "rigid was started again"
api POST /jobs/soft/cancel "" >/dev/null
wait_state soft cancelled

# Fails twice, then not.
cat >"$tmp/twice" <<END
#!/bin/sh
echo x >>"$tmp/count"
[ "\$(wc -l <"$tmp/count")" -gt 2 ]
END
chmod +x "$tmp/twice"
submit twice 1 "retry: {on: [failure], max: 2}" "$tmp/twice"
wait_state twice succeeded
[ "$(field twice retries)" = 2 ] || fail "$(field twice retries) retries"

# shellcheck disable=SC2016 # not to be expanded
submit shell 1 "" /bin/echo '$(touch '"$tmp"'/pwned); `id` ; ../../x'
wait_state shell succeeded
[ ! -e "$tmp/pwned" ] || fail "a shell saw it"
api GET /jobs/shell/logs | grep -qF 'touch' || fail "the log does not have the arguments"
api POST /jobs/rigid/cancel "" >/dev/null
wait_state rigid cancelled
down
exit 0
