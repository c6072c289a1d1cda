#!/bin/sh
# docs/slurm.md is followed word by word with accounts (slurmdbd): the administrator
# makes accounts, installs firn, starts firnd and firn-launch, and opens an inbox;
# three users submit, watch and ask why, and use the inbox; firn is removed. All
# commands and configuration are those of the page. Only names and paths are
# replaced by those of the test: folders, users, ports, the partition, the program
# that trains, JOB. After firnd is started, the test waits until it answers.
FIRND_ENGINE=slurm
. tests/lib/firnd.sh
. tests/lib/slurmusers.sh
PATH=$PATH:/usr/sbin
for tool in slurmdbd mariadbd sacctmgr sacct pgrep; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
slurm_up 1x8:v100@16 --accounts
here=$lab/site port=$(cat "$bed/port") socket=$lab/site/state/firn.sock
install -d -o "$keeper" "$here"
rm "$lab/firn" "$lab/firnd" # firn is installed by the page
PATH=$here/bin:$PATH
printf '#!/bin/sh\necho trains as "$(id -un)"\n' >"$lab/train"
chmod 755 "$lab/train"

# What the page starts in the background is ended with the test.
programs() { pgrep -f "^[^ ]*firn(d|-launch) .*$lab"; }
leave_page()
{
    for pid in $(programs); do
        kill "$pid" 2>/dev/null
    done
    leave
}
trap leave_page EXIT

# here: the page's text with names and paths of the test.
here()
{
    sed "s|/shared/firn|$lab/site|g; s|/run/firn-launch|$lab/run|g
        s|firn-users|$people|g; s|usermod -aG $people firn|usermod -aG $people $keeper|
        s|pgrep -x firn-launch|pgrep -f $lab/run/sock|
        s|user firn|user $keeper|; s|-o firn |-o $keeper |; s|-u firn |-u $keeper |
        s|\\bann\\b|$ann|g; s|login1:7070|127.0.0.1:$port|
        s|0\\.0\\.0\\.0:7070|127.0.0.1:$port|; s|slurm\\.partition=gpu|slurm.partition=main|
        s|PartitionName=inbox|PartitionName=letters|; s|slurm\\.inbox=inbox|slurm.inbox=letters|
        s|python3 train\\.py|$lab/train|; s|--gpus 1\\.\\.8|--gpus 1..2|
        s|^firnd --config.*|& until firn nodes >/dev/null 2>\\&1; do sleep 0.1; done|"
}

# part TITLE LANGUAGE N: the Nth block of that language in that section.
part()
{
    awk -v title="## $1" -v fence="\`\`\`$2" -v n="$3" '
        /^## / { is_in = $0 == title; next }
        is_in && $0 == fence { is_block = ++seen == n; next }
        /^```/ { is_block = 0; next }
        is_block && !/^# needs/ { print }' docs/slurm.md | here >"$lab/page"
    [ -s "$lab/page" ] || fail "the page has no such block: $*"
    chmod 644 "$lab/page"
}

# follow USER TITLE N: that user runs the Nth commands of the section.
follow()
{
    part "$2" sh "$3"
    echo "--- $2, $3" >>"$tmp/err"
    (cd "$here" && as "$1" sh -ex "$lab/page") >>"$tmp/err" 2>&1 </dev/null ||
        fail "the page fails at '$2', block $3"
}

# The administrator: accounts; the other two users as the first.
follow root "For the administrator" 1
for user in $ben $cat; do
    sed -n "s/add user $ann/add user $user/p" "$lab/page" >"$tmp/more"
    sh -e "$tmp/more" >>"$tmp/err" 2>&1 || fail "no associations of $user"
done

# Installs firn. The build folder is the test's, and may be closed to others.
part "Install beside an existing Slurm" sh 1
sed -i "s|^make && make install|true|" "$lab/page"
env -u MAKEFLAGS make -s install PREFIX="$here" BUILD="${FIRN%/firn}" \
    >>"$tmp/err" 2>&1 || fail "make install failed"
as "$keeper" sh -e "$lab/page" >>"$tmp/err" 2>&1 || fail "no state folder"
part "Install beside an existing Slurm" yaml 1
as "$keeper" cp "$lab/page" "$here/firn.yaml"
follow "$keeper" "Install beside an existing Slurm" 2
err_has "v100" || fail "firn nodes shows no GPU"

# Jobs as their users.
follow root "Jobs as their users" 1
usermod -aG "$people" "$ben"
usermod -aG "$people" "$cat"
await "there is no launcher" test -S "$lab/run/sock"
part "Jobs as their users" yaml 1
cat "$lab/page" >>"$here/firn.yaml"
follow "$keeper" "Jobs as their users" 2

# Three users.
n=$(api GET /jobs | grep -o '"id": *[0-9]*' | sort -u | wc -l)
for user in $ann $ben $cat; do
    n=$((n + 1))
    part "For a user" sh 1
    sed "s/JOB/$n/" "$lab/page" | sed '/firn cancel/i\firn wait '$n >"$lab/user"
    chmod 644 "$lab/user"
    as "$user" sh "$lab/user" >"$tmp/out" 2>&1
    out_has "trains as $user"
done
of_three()
{
    timeout 240 sacct -a -X -n -P -o User,Account,State,JobName | grep 'firn:' |
        grep -v "^$keeper" | sort -u -t '|' -k 1,2 >"$tmp/sacct"
    [ "$(grep -c '|ml|COMPLETED|' "$tmp/sacct")" = 3 ]
}
await "sacct: $(cat "$tmp/sacct" 2>/dev/null)" of_three

# The inbox: its partition, the right, the setting. The script of each user runs as
# that user.
part "For a site that only wants the inbox" text 1
cat "$lab/page" >>"$bed/etc/slurm.conf"
follow root "For a site that only wants the inbox" 1
grep -o 'settings: \[slurm.partition=gpu, slurm.inbox=inbox\]' docs/slurm.md |
    here >"$tmp/settings" && [ -s "$tmp/settings" ] || fail "no such setting"
sed -i "s|^settings:.*|$(cat "$tmp/settings")|" "$here/firn.yaml"
follow "$keeper" "Jobs as their users" 2
! grep -q "may not change other users' jobs" "$tmp/err" || fail "no right"
for user in $ann $ben $cat; do
    (cd / && as "$user" sbatch -Q -p letters -J "in-$user" --gres=gpu:1 \
        -o "$lab/out/in-$user" --wrap 'id -un') || fail "sbatch failed"
done
for user in $ann $ben $cat; do
    wait_state "in-$user" succeeded
    [ "$(cat "$lab/out/in-$user")" = "$user" ] || fail "not as $user"
done

# Uninstall.
follow "$keeper" Uninstall 1
here=$lab # the page removes the folder
follow root Uninstall 2
[ ! -e "$lab/site" ] || fail "files are left"
none_left() { [ -z "$(programs)" ]; }
await "programs are left" none_left
exit 0
