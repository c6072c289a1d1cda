# slurmusers.sh - real users of a Slurm, for shell tests. Sourced after firnd.sh,
# with FIRND_ENGINE=slurm.
#
# $keeper runs firnd; $ann, $ben and $cat submit jobs and are members of $people,
# the launcher's group. They are made for the test (useradd) and removed after
# it. firn-launch runs as root. Files that all of them read are in $lab; firnd's
# state is in $lab/state.
[ "$(id -u)" = 0 ] || skip "real users need root"
for tool in useradd userdel groupadd groupdel setpriv; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done
launcher=${FIRN%/firn}/firn-launch
[ -x "$launcher" ] || skip "firn-launch is not built"
case $firnd in
*/asan/*) skip "a leak checker cannot look into another user's process" ;;
esac
tag=fs$$ root_daemon=''
keeper=${tag}k ann=${tag}a ben=${tag}b cat=${tag}c people=${tag}g
# Not below $tmp, which other users cannot enter.
lab=$(mktemp -d /tmp/firn-lab.XXXXXX) || fail "no folder"

leave()
{
    [ -z "$root_daemon" ] || kill "$root_daemon" 2>/dev/null
    cleanup
    for user in $keeper $ann $ben $cat; do
        userdel "$user" 2>/dev/null
    done
    groupdel "$people" 2>/dev/null
    rm -rf "$lab"
}
trap leave EXIT
groupadd "$people" 2>"$tmp/err" || skip "no group can be made: $(cat "$tmp/err")"
for user in $keeper $ann $ben $cat; do
    useradd -M -G "$people" -s /bin/sh "$user" 2>"$tmp/err" ||
        skip "no user can be made: $(cat "$tmp/err")"
done
chmod 755 "$lab"
mkdir "$lab/run" "$lab/state" "$lab/out"
chown "$keeper" "$lab/run" "$lab/state"
chmod 755 "$lab/run"
chmod 1777 "$lab/out"
cp "$firnd" "$FIRN" "$lab/" # the build folder may be closed to others
socket=$lab/run/sock

# as USER COMMAND...: runs it as that user, with the groups of that user.
as()
{
    user=$1
    shift
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups \
        env -u TMPDIR HOME=/ USER="$user" FIRN_SOCKET="$socket" PATH="$lab:$PATH" \
        timeout 240 "$@"
}

# launcher_up [OPTION]...: starts firn-launch.
launcher_up()
{
    "$launcher" --state "$lab/state" --socket "$lab/run/launch" \
        --user "$keeper" --group "$people" --shepherd "$lab/firnd" --uid-min 1 \
        --without-cgroups "$@" 2>>"$tmp/launcher" &
    root_daemon=$!
    await "there is no launcher" test -S "$lab/run/launch"
}

# users_up [OPTION]...: starts firnd as $keeper, who is no one else in Slurm.
users_up()
{
    (umask 077 && cp "$tmp/token" "$lab/token") && chown "$keeper" "$lab/token"
    # Not by as(): the number would be that of a shell.
    setpriv --reuid "$keeper" --regid "$(id -g "$keeper")" --init-groups \
        env HOME=/ SECRET=of-firnd "$lab/firnd" --state "$lab/state" \
        --socket "$socket" --socket-group "$people" --engine slurm \
        --launcher "$lab/run/launch" \
        --listen "127.0.0.1:$(cat "$bed/port")" --listen-plain \
        --token-file "$lab/token" --operators root \
        ${bed_memory:+--set slurm.memory=$bed_memory} \
        --set slurm.poll=0.1 "$@" 2>>"$tmp/err" &
    daemon=$!
    await "firnd does not answer" answers
}
