#!/bin/sh
# An array is a job for each number, some at a time; a script with #SBATCH lines
# is one process with the GPUs that it asks for, and what is ignored is named.
. tests/lib/firnd.sh
only local "it looks at the GPUs of this host"
up --gpus 1x4:v100@16
FIRN_SOCKET=$socket
export FIRN_SOCKET
run 0 submit --array 2-4%2 --name a --wait -- sh -c 'echo number $ARRAY_INDEX'
[ "$(wc -l <"$tmp/out")" = 3 ] || fail "not three jobs: $(cat "$tmp/out")"
for i in 2 3 4; do
    run 0 logs "a-$i"
    out_has "number $i"
done
is a-4 waits_for "any:1" || fail "the third waits for '$value'"
run 2 submit --array 4-2 -- true
err_has "--array '4-2'"

cat >"$tmp/job.sh" <<'END'
#!/bin/sh
#SBATCH --job-name=old --gres=gpu:2
#SBATCH --time=1:00:00 --mem=4G
echo "script $1 $CUDA_VISIBLE_DEVICES $WORLD_SIZE"
END
run 0 submit --wait "$tmp/job.sh" word
err_has "ignored: --mem=4G"
is old limit_s 3600 || fail "the time limit of the script is '$value'"
run 0 logs old
out_has "script word 0,1 1"
run 0 submit --wait --gpus 1 --name new "$tmp/job.sh" again
run 0 logs new
out_has "script again 0 1"

# A template is found by its name; values replace its placeholders.
mkdir -p "$tmp/config/firn/templates"
export XDG_CONFIG_HOME="$tmp/config"
cat >"$tmp/config/firn/templates/greet.yaml" <<'END'
name: greet-{{whom}}
run: [sh, -c, "echo {{word:hello}} {{whom}}"]
gpus: 1
END
run 0 submit --wait --template greet --with whom=ann
run 0 logs greet-ann
out_has "hello ann"
run 1 submit --template greet
err_has "no value for {{whom}}: give --with whom=VALUE"
run 1 submit --template greet --with whom=ann --with wrod=hi
err_has "--with wrod=hi"
run 2 submit --template greeting
err_has "there is no template 'greeting'"
down
