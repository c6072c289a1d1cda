#!/bin/sh
# admin.sh - docs/admin.md, word by word, in a bare Debian with real users.
#
# Every ```sh block of the page is run as root in the order of the page, but for
# the one that builds the packages, which `make deb` has done. One line is added
# to firn.yaml, since the test has no GPUs of its own: eight are declared. Part
# of `make deb-test`. TAP on stdout.
cd "$(dirname "$0")/../.." || exit 1
. tests/deb/bare.sh
. tests/lib/cases.sh
bare_up
mkdir -p "$bare/host/build/deb"
cp "$debs"/*.deb "$bare/host/build/deb/"

# block N: the commands of the N-th block.
block()
{
    awk -v want="$1" '/^```sh/ { n++; code = 1; next } /^```/ { code = 0 }
        code && n == want' docs/admin.md
}
follow()
{
    block "$1" >"$bare/host/block.sh"
    [ -s "$bare/host/block.sh" ] || { echo "there is no block $1"; return 1; }
    in_bare sh -e -c 'cd /host && . ./block.sh' >"$tmp/said" 2>&1
    status=$?
    cat "$tmp/said"
    return $status
}

builds() { block 1 | grep -x 'make deb'; }
installs() { follow 2 && in_bare systemctl is-active firn-launch; }
makes_users() { follow 3 && in_bare id hal | grep firn-users; }
configures()
{
    echo 'gpus: 1x8:h100@80' >>"$bare/etc/firn/firn.yaml"
    follow 4 && grep 'no mistake found' "$tmp/said"
}
starts() { follow 5 && grep h100 "$tmp/said"; }
users_run_jobs()
{
    follow 6 || return 1
    grep -x bob "$tmp/said" && grep 'long' "$tmp/said" &&
        grep 'vision' "$tmp/said" && grep 'speech' "$tmp/said"
}
has_no_other_blocks() { [ "$(grep -c '^```sh' docs/admin.md)" -eq 6 ]; }

# What the page promises beside its commands.
as() { in_bare su - "$1" -c "$2"; }
keeps_users_apart()
{
    as eve 'firn submit --name own --gpus 1 -- sh -c "echo secret; exec sleep 600"' ||
        return 1
    own_runs() { as eve 'firn logs own' | grep -x secret; }
    await "eve's job" own_runs || return 1
    ! as bob 'firn logs own' && ! as bob 'firn cancel own' &&
        ! as eve 'firn submit --project vision -- true' &&
        ! as eve 'firn drain n0' && as ann 'firn logs own' | grep -x secret &&
        pid=$(in_bare pgrep -u eve -x sleep) && ! as bob "kill $pid" &&
        ! as bob 'cat /var/lib/firn/firn.db' && ! as bob 'ls /var/lib/firn' &&
        as eve 'firn cancel own'
}
# Speech holds four GPUs at most while vision wants the rest.
obeys_the_quota()
{
    for i in 1 2 3; do
        as fay "firn submit --name fay-$i --gpus 2 -- sleep 600" || return 1
    done
    holds() { [ "$(as ann 'firn ls' | grep -c 'fay-.*running')" -eq 2 ]; }
    await "two jobs of fay" holds &&
        as fay 'firn why fay-3' | tee "$tmp/why" &&
        grep 'over quota: project speech holds 4 of 4 GPUs' "$tmp/why"
}
gives_a_terminal()
{
    in_bare test -e /usr/bin/script || { echo "there is no script"; return 0; }
    as bob 'script -qec "firn run -it --gpus 1 -- sh -c \"tty; id -un\"" /dev/null </dev/null' |
        tee "$tmp/terminal"
    grep '/dev/pts/' "$tmp/terminal"
}

try the_first_block_builds_the_packages builds
try packages_are_installed_as_the_page_says installs
try eight_users_are_made makes_users
try the_configuration_has_no_mistake configures
try firnd_and_the_launcher_start starts
try users_run_jobs_as_the_page_says users_run_jobs
try all_blocks_of_the_page_were_run has_no_other_blocks
try users_are_kept_apart keeps_users_apart
try the_quota_of_a_project_holds obeys_the_quota
try a_user_gets_a_terminal_in_a_job gives_a_terminal
echo "1..$n"
