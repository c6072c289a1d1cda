#!/bin/sh
# ymir, temporal transfer: a job begins with the weights of another and its loss
# stays above what its task was seen to have without them. The scheduler stops
# it after two epochs, it begins anew with the base's weights, and it ends with
# the weights of a job that never had others.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
FIRN_SOCKET=$socket
export FIRN_SOCKET
cp README.md "$tmp/one.txt"
cp HACKING.md "$tmp/two.txt"

# Waits for a word before its first step. With the weights of another job it
# learns nothing, until it is stopped.
cat >"$tmp/gpt" <<END
#!/bin/sh
until [ -e "$tmp/go" ]; do sleep 0.1; done
[ -z "\$FIRN_AFTER" ] || set -- "\$@" --rate 1e-9 --epochs 1000
echo "after '\$FIRN_AFTER' anew '\$FIRN_ANEW'"
exec "$gpt" "\$@"
END
chmod +x "$tmp/gpt"

# tune NAME TEXT OPTION...: a job that fine-tunes the base on that text.
tune()
{
    name=$1 text=$2
    shift 2
    submit "$name" 1 "duration: 60
workdir: $tmp
checkpoint: {grace: 10}
finetune: {base: tiny, dataset: $text, sharing: allowed}" \
        "$tmp/gpt" --base seed:5 --text "$text" --judge 1 --batch 8 "$@"
}

# start SECONDS: the scheduler with a round in that many seconds.
start()
{
    up --gpus 1x1:v100@16 --policy ymir --set ymir.between=yes \
        --set "ymir.interval=$1" --set ymir.spatial=no
}

start 1
touch "$tmp/go"
task="--epochs 4 --samples 64 --optimizer adam --rate 0.01"
# shellcheck disable=SC2086 # words
tune alone two.txt $task
wait_state alone succeeded

rm "$tmp/go"
tune a one.txt --epochs 1 --samples 64 --rate 1e-9
wait_state a running
# shellcheck disable=SC2086 # words
tune b two.txt $task
wait_why b 'policy ymir: waits for the weights of a: '
down # no further round, in which b might be decided otherwise
start 1000000
touch "$tmp/go"
wait_state b succeeded
log=$tmp/state/jobs/3/log
grep -q 'begins with the weights of job 2' "$log" || fail "b began with the base"
events | grep -q 'begins anew: with the weights of job 2 its loss is' ||
    fail "b was not told why it is stopped"
grep -q "after '' anew '2'" "$log" || fail "its second start is not anew"
down
weights_of 1 alone
weights_of 3 b
same_weights alone b
exit 0
