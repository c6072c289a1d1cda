#!/bin/sh
# Words of a job that a shell, sbatch or srun might take for theirs: arguments,
# values of variables, the folder it works in. Nothing of it is run, and all of
# it arrives byte for byte, on Slurm as on this host.
. tests/lib/firnd.sh
up --gpus 1x2:v100@16 --policy fifo
odd="$tmp/a b;c\$(touch x)'d"
mkdir "$odd"
cat >"$tmp/tell" <<'END'
#!/bin/sh
{
    pwd
    printf '%s\n' "$EVIL" "$QUOTES" "$SBATCH_PARTITION" "$ONE_MORE"
    printf '%s\n' "$@"
} >"$TOLD.$RANK"
END
chmod +x "$tmp/tell"

# shellcheck disable=SC2016 # for nobody to expand
job='{"name": "x-9", "gpus": 2, "workdir": "'$odd'", "env": {
    "TOLD": "'$tmp'/told",
    "EVIL": "$(touch '$tmp'/pwned); `touch '$tmp'/pwned` | touch '$tmp'/pwned",
    "QUOTES": "\" '"'"' \\ \\\" %j %x * ? [a-z] {a,b} ~ #SBATCH -p inbox",
    "SBATCH_PARTITION": "inbox", "ONE_MORE": "a=b,c=d ALL,NONE"},
    "run": ["'$tmp'/tell", "--partition=inbox", "; touch '$tmp'/pwned",
    "$(touch '$tmp'/pwned)", "", "a  b", "%j-%N", "\"", "'"'"'", "-", "--",
    "#!/bin/sh", ":", "\\", "é"]}'
api POST /jobs "$job" >/dev/null || fail "it was not taken"
wait_state x-9 succeeded
# shellcheck disable=SC2016 # for nobody to expand
printf '%s\n' "$odd" \
    '$(touch '"$tmp"'/pwned); `touch '"$tmp"'/pwned` | touch '"$tmp"'/pwned' \
    '" '"'"' \ \" %j %x * ? [a-z] {a,b} ~ #SBATCH -p inbox' \
    inbox 'a=b,c=d ALL,NONE' \
    --partition=inbox "; touch $tmp/pwned" '$(touch '"$tmp"'/pwned)' '' \
    'a  b' '%j-%N' '"' "'" - -- '#!/bin/sh' : '\' 'é' >"$tmp/want"
for rank in 0 1; do
    cmp "$tmp/want" "$tmp/told.$rank" >"$tmp/out" 2>&1 || {
        diff "$tmp/want" "$tmp/told.$rank" >>"$tmp/out"
        fail "worker $rank was told otherwise"
    }
done
[ ! -e "$tmp/pwned" ] && [ ! -e "$odd/x" ] && [ ! -e x ] ||
    fail "a shell saw it"
# Names that could be more than names, and control characters, are refused.
# shellcheck disable=SC2016 # for nobody to expand
for name in 'a b' 'a;b' '$(id)' '--wrap' 'a\nb' '-n' '../x' "a'b"; do
    api POST /jobs '{"name": "'"$name"'", "run": ["true"]}' >/dev/null 2>&1 &&
        fail "a job is called $name"
done
api POST /jobs '{"name": "n", "run": ["true"], "env": {"X": "a\nb"}}' \
    >/dev/null 2>&1 && fail "a line break was taken"
down
exit 0
