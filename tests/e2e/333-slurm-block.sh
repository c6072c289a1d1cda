#!/bin/sh
# The `slurm:` block of a job reaches Slurm: account, QOS, cores, time limit and
# constraint, and srun's options; an option that would write a file, or a value
# with a blank, is refused with a sentence.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
slurm_up 2x2:v100@16
timeout 240 scontrol update NodeName=n1 AvailableFeatures=v100,ib \
    ActiveFeatures=v100,ib || fail "no feature"
up --policy fifo --set slurm.poll=0.1
cat >"$tmp/tell" <<'END'
#!/bin/sh
echo "cores $SLURM_CPUS_PER_TASK bind $SLURM_CPU_BIND_TYPE"
sleep 3000
END
chmod +x "$tmp/tell"
submit block 1 "slurm: {account: ml, cpus: 3, time: 5m, constraint: ib,
  options: --cpu-bind=none --threads-per-core=1}" "$tmp/tell"
wait_state block running
[ "$(field block gpus)" = "n1[0]" ] || fail "block is on $(field block gpus)"
timeout 240 squeue -h -t R -o '%a %l %f %N' >"$tmp/out"
[ "$(cat "$tmp/out")" = "ml 5:00 ib n1" ] || fail "Slurm has $(cat "$tmp/out")"
has_cores()
{
    grep -q 'cores 3 bind none' "$tmp/state/jobs/1/log"
}
await "no cores: $(cat "$tmp/state/jobs/1/log")" has_cores

# apptainer gets the words of `run` as they are; this one records them.
mkdir "$tmp/stand"
cat >"$tmp/stand/apptainer" <<END
#!/bin/sh
printf '%s\\n' "\$@" >"$tmp/words"
shift 3
exec "\$@"
END
chmod +x "$tmp/stand/apptainer"
submit contained 1 "" "$tmp/stand/apptainer" exec --nv lab.sif sh -c 'echo in $FIRN_JOB'
wait_state contained succeeded
[ "$(xargs <"$tmp/words")" = 'exec --nv lab.sif sh -c echo in $FIRN_JOB' ] ||
    fail "apptainer has $(cat "$tmp/words")"
grep -q '^in 2$' "$tmp/state/jobs/2/log" || fail "$(cat "$tmp/state/jobs/2/log")"

# refused LINE TEXT: such a job is not taken, and the answer has TEXT.
refused()
{
    curl -s --unix-socket "$socket" -X POST -H 'Content-Type: application/yaml' \
        --data-binary "run: [true]
slurm: $1" http://firn/v1/jobs >"$tmp/out"
    out_has "$2"
}
refused '{options: --output=/etc/motd}' 'not one of'
refused '{options: "--cpu-bind=none;x"}' 'not one of'
refused '{container: "a b"}' 'not allowed there'
refused '{constraint: "--uid=0"}' 'not allowed there'
down
exit 0
