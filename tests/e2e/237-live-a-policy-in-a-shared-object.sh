#!/bin/sh
# firnd takes a policy from a shared object that its command line names, runs
# jobs by it, also after kill -9, and never loads a file that a request names.
. tests/lib/firnd.sh
only local "it is about firnd alone"
awk '$0 == "```c" { on = ++n == 2; next } /^```$/ { on = 0 } on' \
    docs/library.md >"$tmp/largest.c"
sed 's/"largest"/"other"/' "$tmp/largest.c" >"$tmp/other.c"
for name in largest other; do
    ${CC:-cc} -std=c17 -Iinclude -shared -fPIC -o "$tmp/$name.so" \
        "$tmp/$name.c" || fail "$name.so does not compile"
done

up --gpus 1x2:v100@16 --policy "$tmp/largest.so" --set largest.limit=4
says /policy '"name": "largest"' || fail "the policy is not in use"
submit job 1 "" /bin/true
wait_state job succeeded
# A request cannot load code: neither by a path nor by a name not loaded.
for name in "$tmp/other.so" ./other.so other; do
    ! api PATCH /policy "{\"name\": \"$name\"}" >/dev/null ||
        fail "a request loaded $name"
done
says /policy '"name": "largest"' || fail "the policy has changed"
# Between the loaded and a built-in policy a request can choose.
api PATCH /policy '{"name": "fifo"}' >/dev/null || fail "no change to fifo"
api PATCH /policy '{"name": "largest"}' >/dev/null || fail "no change back"
says /policy '"name": "largest"' || fail "not changed back"
down KILL
up --gpus 1x2:v100@16 --policy "$tmp/largest.so" --set largest.limit=4
says /policy '"name": "largest"' || fail "the policy is lost by a restart"
down

"$firnd" --gpus 1x2:v100@16 --policy "$tmp/none.so" --state "$tmp/state" \
    --socket "$socket" --allow-root >"$tmp/out" 2>"$tmp/err" &&
    fail "firnd starts without its policy"
grep -qF "there is no shared object '$tmp/none.so'" "$tmp/err" ||
    fail "no sentence"
exit 0
