#!/bin/sh
# A running job moves to another GPU without a restart: the process on the new GPU
# joins, the one on the old GPU leaves. The policy, of this test, gives each job the
# GPU that its priority names. The weights are those of a run that never moved.
. tests/lib/firnd.sh
[ -z "${FIRN_QUICK:-}" ] || skip "its trainers take minutes under a checker"
only local "processes join on the local engine only"
cat >"$tmp/named.c" <<'END'
#include <firn/policy.h>

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    (void)state;
    for (size_t i = 0; i < view->njobs; i++) {
        struct firn_part part = {0, 0, UINT64_C(1) << jobs[i]->spec.priority};
        struct firn_alloc alloc = FIRN_ALLOC_NONE;
        alloc.parts = &part;
        alloc.nparts = alloc.ngpus = 1;
        firn_plan_place(plan, jobs[i], &alloc);
    }
    return FIRN_OK;
}

static const struct firn_policy_def named = {
    .size = sizeof(struct firn_policy_def),
    .name = "named",
    .summary = "the GPU that the priority of a job names",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .state_size = 1,
    .decide = decide,
};

FIRN_POLICY_PLUGIN(named);
END
${CC:-cc} -std=c17 -Iinclude -shared -fPIC -o "$tmp/named.so" "$tmp/named.c" ||
    fail "the policy does not compile"
# Trains slowly until it is told otherwise.
cat >"$tmp/cnn" <<END
#!/bin/sh
[ -e "$tmp/fast" ] || set -- "\$@" --pace 400
exec "$cnn" "\$@"
END
chmod +x "$tmp/cnn"
small="--threads 2 --batch 16 --epochs 40 --samples 64 --judge 0"
# is_on GPU N: has the job this GPU, after N moves that events tell of?
is_on()
{
    [ "$(field job gpus)" = "n0[$1]" ] &&
        [ "$("$FIRN" events --socket "$socket" -j job |
            grep -c "resized without a stop")" = "$2" ]
}

up --gpus 1x2:v100@16 --policy "$tmp/named.so"
# shellcheck disable=SC2086 # words
submit job 1 "elastic: {threads: 2}
checkpoint: {grace: 10, interval: 60}
freeze: {rule: off}" "$tmp/cnn" $small
wait_state job running
await "no process can join" says /jobs/job '"join"'
"$FIRN" priority --socket "$socket" job 1 >/dev/null || fail "no priority"
await "it is not on the second GPU" is_on 1 1
touch "$tmp/fast" # the process that joins now
"$FIRN" priority --socket "$socket" job 0 >/dev/null || fail "no priority"
await "it is not back on the first GPU" is_on 0 2
wait_state job succeeded
[ "$(field job epoch)" = 1 ] || fail "it was restarted to move"
mkdir "$tmp/job" && cp "$tmp"/state/jobs/1/ckpt/*.ckpt "$tmp/job/"
down
# shellcheck disable=SC2086 # words
train whole 1 "" "$cnn" $small
"$FIRN" train diff --only weights,optimizer "$(newest whole)" "$(newest job)" \
    >"$tmp/out" || fail "the weights or the optimiser differ: $(cat "$tmp/out")"
exit 0
