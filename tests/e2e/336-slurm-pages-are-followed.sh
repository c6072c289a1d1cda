#!/bin/sh
# docs/slurm.md is followed by three users with accounts (slurmdbd): the commands
# of "For a user", as they stand there, by each of them; and the inbox, whose
# right is given by the commands of that page. Only paths and names of the page
# are replaced by those of the test: the state directory, the user firn, the
# program that trains, JOB.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
. tests/lib/slurmusers.sh
PATH=$PATH:/usr/sbin
for tool in slurmdbd mariadbd sacctmgr sacct; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
slurm_up 1x8:v100@16 --accounts
acct() { timeout 240 sacctmgr -Q -i "$@" >"$tmp/out" || fail "sacctmgr $*"; }
acct add account ml cluster=bed
acct add account bio cluster=bed
for user in $keeper $ann $ben $cat; do
    acct add user "$user" account=bio
    acct add user "$user" account=ml
done

# block TITLE: the first commands of that section.
block()
{
    sed -n "/^## $1\$/,/^## /p" docs/slurm.md | sed -n '/^```sh$/,/^```$/p' |
        sed '1d; /^```$/q' | sed '/^```$/d; /^# needs/d'
}

# The administrator of a site with an inbox: the right.
block "For a site that only wants the inbox" >"$tmp/inbox"
grep -q AdminLevel=Operator "$tmp/inbox" || fail "no such commands in the page"
sed -i "s/user firn/user $keeper/" "$tmp/inbox"
sh -e "$tmp/inbox" >"$tmp/out" 2>&1 || fail "the page of the inbox fails"
launcher_up
users_up --policy fifo --set slurm.inbox=inbox
! grep -q "may not change other users' jobs" "$tmp/err" || fail "no right"

printf '#!/bin/sh\necho trains as "$(id -un)"\n' >"$lab/train"
chmod 755 "$lab/train"
block "For a user" >"$tmp/user"
grep -q 'firn submit.*--slurm-account ml' "$tmp/user" || fail "no such commands"
n=0
for user in $ann $ben $cat; do
    n=$((n + 1))
    sed "s|/shared/firn/state/firn.sock|$socket|; s|python3 train.py|$lab/train|
        s|--gpus 1\\.\\.8|--gpus 1..2|; s/JOB/$n/" "$tmp/user" |
        sed '/firn cancel/i\firn wait '$n >"$lab/page"
    chmod 644 "$lab/page"
    as "$user" sh "$lab/page" >"$tmp/out" 2>&1
    out_has "trains as $user"
done

# Accounting has the users and their account.
of_three()
{
    timeout 240 sacct -a -X -n -P -o User,Account,State,JobName | grep 'firn:' |
        sort -u -t '|' -k 1,2 >"$tmp/sacct"
    [ "$(grep -c '|ml|COMPLETED|' "$tmp/sacct")" = 3 ]
}
await "sacct: $(cat "$tmp/sacct" 2>/dev/null)" of_three

# The inbox: the script of each user runs as that user.
for user in $ann $ben $cat; do
    (cd / && as "$user" sbatch -Q -p inbox -A bio -J "in-$user" --gres=gpu:1 \
        -o "$lab/out/in-$user" --wrap 'id -un') || fail "sbatch failed"
done
for user in $ann $ben $cat; do
    wait_state "in-$user" succeeded
    [ "$(cat "$lab/out/in-$user")" = "$user" ] || fail "not as $user"
done
down
exit 0
