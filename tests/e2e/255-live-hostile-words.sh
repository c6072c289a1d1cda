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
    printf '%s\n' "$EVIL" "$QUOTES" "$SBATCH_PARTITION" "$ONE_MORE" "$LINES"
    printf '%s\n' "$@"
} >"$TOLD.$RANK"
END
chmod +x "$tmp/tell"

# shellcheck disable=SC2016 # it must stay as it is
job='{"name": "x-9", "gpus": 2, "workdir": "'$odd'", "env": {
    "TOLD": "'$tmp'/told",
    "EVIL": "$(touch '$tmp'/pwned); `touch '$tmp'/pwned` | touch '$tmp'/pwned",
    "QUOTES": "\" '"'"' \\ \\\" %j %x * ? [a-z] {a,b} ~ #SBATCH -p inbox",
    "SBATCH_PARTITION": "inbox", "ONE_MORE": "a=b,c=d ALL,NONE",
    "LINES": "first\nFORGED\t2\n"},
    "run": ["'$tmp'/tell", "--partition=inbox", "; touch '$tmp'/pwned",
    "$(touch '$tmp'/pwned)", "", "a  b", "%j-%N", "\"", "'"'"'", "-", "--",
    "#!/bin/sh", ":", "\\", "é", "if x:\n\tFORGED = 1\n"]}'
api POST /jobs "$job" >/dev/null || fail "it was not taken"
wait_state x-9 succeeded
# shellcheck disable=SC2016 # it must stay as it is
printf '%s\n' "$odd" \
    '$(touch '"$tmp"'/pwned); `touch '"$tmp"'/pwned` | touch '"$tmp"'/pwned' \
    '" '"'"' \ \" %j %x * ? [a-z] {a,b} ~ #SBATCH -p inbox' \
    inbox 'a=b,c=d ALL,NONE' 'first
FORGED	2
' \
    --partition=inbox "; touch $tmp/pwned" '$(touch '"$tmp"'/pwned)' '' \
    'a  b' '%j-%N' '"' "'" - -- '#!/bin/sh' : '\' 'é' 'if x:
	FORGED = 1
' >"$tmp/want"
for rank in 0 1; do
    cmp "$tmp/want" "$tmp/told.$rank" >"$tmp/out" 2>&1 || {
        diff "$tmp/want" "$tmp/told.$rank" >>"$tmp/out"
        fail "worker $rank was told otherwise"
    }
done
[ ! -e "$tmp/pwned" ] && [ ! -e "$odd/x" ] && [ ! -e x ] ||
    fail "a shell saw it"
# Names that could be more than names, and control characters, are refused.
# shellcheck disable=SC2016 # it must stay as it is
for name in 'a b' 'a;b' '$(id)' '--wrap' 'a\nb' '-n' '../x' "a'b"; do
    api POST /jobs '{"name": "'"$name"'", "run": ["true"]}' >/dev/null 2>&1 &&
        fail "a job is called $name"
done
api POST /jobs '{"name": "n", "run": ["true"], "env": {"X": "a\rb"}}' \
    >/dev/null 2>&1 && fail "a carriage return was taken"

# Where they are shown, a line break in them begins no line.
if "$FIRN" help | grep -q '^  submit '; then
    for words in 'show x-9' 'show x-9 -o json' 'ls --all' 'ls --all -o json' \
        'events' 'events -o json' 'top' 'why x-9' 'trace export'; do
        # shellcheck disable=SC2086 # words
        FIRN_SOCKET=$socket "$FIRN" $words >"$tmp/out" 2>"$tmp/said" ||
            fail "firn $words: $(cat "$tmp/said")"
        ! grep -q '^[[:space:]]*FORGED' "$tmp/out" ||
            fail "firn $words shows a line that is none"
    done
    FIRN_SOCKET=$socket "$FIRN" show x-9 >"$tmp/out"
    out_has 'LINES=first\x0aFORGED\x092\x0a'
    out_has 'if x:\x0a\x09FORGED = 1\x0a'
    "$FIRN" submit --dry-run --env 'X=a
FORGED	2' -- true 'b
FORGED' >"$tmp/out" || fail "no dry run"
    ! grep -q '^[[:space:]]*FORGED' "$tmp/out" || fail "a job file is forged"
    out_has '"a\u000aFORGED\u00092"'
    # What it printed is the same job.
    sed '1i name: again' "$tmp/out" >"$tmp/again.yaml"
    FIRN_SOCKET=$socket "$FIRN" submit --hold -f "$tmp/again.yaml" \
        >"$tmp/id" || fail "its own job file is refused"
    FIRN_SOCKET=$socket "$FIRN" show again >"$tmp/out"
    out_has 'b\x0aFORGED'
fi
! grep -q '^[[:space:]]*FORGED' "$tmp/err" || fail "the log has a forged line"
down
exit 0
