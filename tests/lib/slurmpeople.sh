# slurmpeople.sh - a Slurm with several users, for shell tests. Sourced after
# firnd.sh, with FIRND_ENGINE=slurm.
#
# The users are system accounts that every Debian has and that run nothing:
# $keeper runs firnd, $ann and $ben submit jobs. Changing users needs root. Files
# that all of them read are in $lab; firnd's state is in $lab/state.
[ "$(id -u)" = 0 ] || skip "several users need root"
command -v setpriv >/dev/null || skip "there is no setpriv"
keeper=games ann=news ben=mail
for user in $keeper $ann $ben; do
    id "$user" >/dev/null 2>&1 || skip "there is no user $user"
done
case $firnd in
*/asan/*) skip "a leak checker cannot look into another user's process" ;;
esac
# Not below $tmp, which other users cannot enter.
lab=$(mktemp -d /tmp/firn-lab.XXXXXX) || fail "no folder"
chmod 755 "$lab"
mkdir "$lab/state" "$lab/out"
chown "$keeper" "$lab/state"
chmod 700 "$lab/state"
chmod 1777 "$lab/out"
cp "$firnd" "$FIRN" "$lab/" # the build folder may be closed to others
socket=$lab/state/sock

leave()
{
    cleanup
    rm -rf "$lab"
}
trap leave EXIT

# as USER COMMAND...: runs it as that user.
as()
{
    user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        env HOME=/ "$@"
}

# up_as USER [OPTION]...: firnd of that user.
up_as()
{
    user=$1
    shift
    cp "$tmp/token" "$lab/token" && chown "$user" "$lab/token"
    # Not by as(): the number would be that of a shell.
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        env HOME=/ "$lab/firnd" --state "$lab/state" --socket "$socket" \
        --engine slurm --listen "127.0.0.1:$(cat "$bed/port")" --listen-plain \
        --token-file "$lab/token" ${bed_memory:+--set slurm.memory=$bed_memory} \
        --set slurm.poll=0.1 "$@" 2>>"$tmp/err" &
    daemon=$!
    await "firnd does not answer" answers
}

# is_there ID STATE: Slurm has the job in that state. in_slurm waits for it.
is_there()
{
    [ "$(timeout 240 squeue -h -a -t all -j "$1,$1" -o %T)" = "$2" ]
}

in_slurm()
{
    await "Slurm does not have job $1 as $2" is_there "$@"
}
