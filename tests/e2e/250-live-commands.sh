#!/bin/sh
# 250-live-commands.sh - a job's life by the firn command alone: submit by
# options and by file, look, follow, hold, cancel; the history as a trace that
# the simulator reads.
. tests/lib/firnd.sh
"$FIRN" help | grep -q '^  submit ' || skip "firn was built without its client"
up --gpus 1x2:v100@16 --policy fifo
FIRN_SOCKET=$socket
export FIRN_SOCKET

# first_line: of standard output.
first_line()
{
    sed -n 1p "$tmp/out"
}

# By options; the job's own status comes back.
run 0 submit --wait --name hello -- sh -c 'echo "hi $X"; printf "\033[1mend\n"'
id=$(first_line)
err_has "job $id (hello): succeeded"
run 7 submit --wait --name seven --env X=1 -- sh -c 'exit 7'
run 0 logs hello
out_has 'hi '
out_has '\x1b[1mend'
run 0 logs --tail 1 hello
[ "$(wc -l <"$tmp/out")" -eq 1 ] || fail "not the last line"

# By file; a wrong one is named with its line, and nothing is sent.
cat >"$tmp/good.yaml" <<'END'
name: held
run: [sleep, "600"]
gpus: 2
duration: 1m
END
# A file that says no folder runs where it was sent from.
here=$(pwd)
printf 'name: here\nrun: [pwd]\n' >"$tmp/here.yaml"
run 0 submit --wait -f "$tmp/here.yaml"
run 0 logs here
grep -qx "$here" "$tmp/out" || fail "it did not run in $here"
printf 'run: x\ngpuss: 2\n' >"$tmp/bad.yaml"
run 1 submit -f "$tmp/bad.yaml"
err_has "bad.yaml: line 2: there is no key 'gpuss'; did you mean gpus"
run 0 submit --hold -f "$tmp/good.yaml"
run 0 why held
out_has 'reason: held'
run 0 ls
out_has 'pending'
run 0 plan -f "$tmp/good.yaml"
run 0 plan --gpus 2 --duration 1m -- sleep 60
out_has 'n0[0-1]'
run 0 release held
wait_state held running
run 0 show held
grep -q 'of .*: running' "$tmp/out" || fail "it does not run"
run 0 submit --name behind -- true
# Some round sees it.
is_seen()
{
    run 0 why behind
    ! grep -q 'reason: new' "$tmp/out"
}
await "no round sees it" is_seen
out_has 'reason: capacity'
out_has 'needs: 1 GPU'
for all in '' --all; do # a list has the same reason
    # shellcheck disable=SC2086 # empty: no argument
    run 0 ls $all
    grep -q ' behind .* capacity$' "$tmp/out" || fail "ls $all: no reason"
done
run 0 eta behind
run 0 cancel behind
run 0 ls
out_has 'n0[0-1]'
run 0 nodes
out_has 'n0    up     v100     2     0'
run 0 top
out_has '2 of 2 in use'

# A beginning that two names have is refused; one that one has will do.
run 0 submit --name heron -- true
run 1 show he
run 0 cancel hel
out_has '(held) is '

# A followed log ends with its job, and an interrupt ends it at once.
run 0 submit --name talks -- \
    sh -c 'echo one; sleep 0.5; echo two; printf "a\000b\n"'
timeout 240 "$FIRN" logs -f talks >"$tmp/out" 2>"$tmp/err" ||
    fail "the followed log does not end with its job"
out_has one
out_has two
run 0 logs -o json talks # all of it, whatever is in it
out_has 'a\u0000b'
# To this process alone: what a leak checker starts at its end must not hear it.
"$FIRN" events -f >"$tmp/out" 2>"$tmp/err" &
await "no events with their caller" grep -q "submitted.*\[$(id -un)\]" "$tmp/out"
kill -INT $! || fail "events -f ended by itself"
wait $!
[ $? -eq 130 ] || fail "events -f was not interrupted"

run 0 drain n0
run 0 nodes
out_has drained
run 0 undrain n0
run 0 trace export -o "$tmp/history.csv"
grep -q 'one_type' "$tmp/history.csv" && fail "one_type was not requested"
run 0 submit --wait --name bits --elastic -- sleep 0.1
run 0 trace export -o "$tmp/history.csv"
grep -q ',one_type$' "$tmp/history.csv" || fail "D1 is lost in the trace"
grep -q '^[0-9]*-bits,.*,1$' "$tmp/history.csv" || fail "bits is not of D1"
run 0 trace stat "$tmp/history.csv"
run 0 trace convert "$tmp/history.csv" -o "$tmp/again.csv"
cmp "$tmp/history.csv" "$tmp/again.csv" || fail "the history loses something"
run 0 whatif --policy fifo,sjf --report "$tmp/whatif.html"
out_has history
grep -q 'Report of 2 simulations' "$tmp/whatif.html" || fail "no report"
run 0 ls --all -o json
out_has '"state": "cancelled"'
# The scheduler exits with 0 while a client follows a log.
run 0 submit --name stays -- sleep 30
"$FIRN" logs -f stays >/dev/null 2>&1 &
follower=$!
"$FIRN" events -f >/dev/null 2>&1 &
sleep 0.5
down
kill $follower $!
exit 0
