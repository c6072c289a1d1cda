#!/bin/sh
# guest.sh - runs as root in the virtual machine of tests/deb/vm.sh. TAP.
#
# First docs/admin.md, block by block, as tests/deb/admin.sh does in a bare root.
# Then what only a kernel with control groups of version 2 can show: a job beyond
# its memory is killed and firn says why, a fork bomb is stopped, a job stays on
# its processors and cannot open the GPUs of others, nor leave its group. Then an
# upgrade with a running job, a scheduler that stands still, removal and purge.
cd "$(dirname "$0")/../.." || exit 1
PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
HOME=/root FIRN_PATIENCE=600
export PATH LC_ALL DEBIAN_FRONTEND HOME FIRN_PATIENCE
tmp=$(mktemp -d /tmp/guest.XXXXXX) || exit 1
. tests/lib/cases.sh
groups=/sys/fs/cgroup/firn

# await WHAT COMMAND...: until it succeeds; an emulated processor is slow.
await()
{
    what=$1
    shift
    i=0
    until "$@" >/dev/null 2>&1; do
        i=$((i + 1))
        [ "$i" -lt 300 ] || { echo "waited in vain: $what"; return 1; }
        sleep 1
    done
}
as() { su - "$1" -c "FIRN_PATIENCE=600 $2"; }
block()
{
    awk -v want="$1" '/^```sh/ { n++; code = 1; next } /^```/ { code = 0 }
        code && n == want' docs/admin.md
}
follow()
{
    block "$1" >"$tmp/block.sh"
    [ -s "$tmp/block.sh" ] || { echo "there is no block $1"; return 1; }
    sh -e "$tmp/block.sh" >"$tmp/said" 2>&1
    status=$?
    cat "$tmp/said"
    return $status
}

# --- docs/admin.md ------------------------------------------------------------
has_controllers()
{
    uname -r
    cat /sys/fs/cgroup/cgroup.controllers
    for word in memory pids cpuset cpu; do
        grep -qw "$word" /sys/fs/cgroup/cgroup.controllers || return 1
    done
}
installs() { follow 2 && systemctl is-active firn-launch; }
makes_users() { follow 3 && id hal | grep firn-users; }
configures()
{
    echo 'gpus: 1x8:h100@80' >>/etc/firn/firn.yaml
    follow 4 && grep 'no mistake found' "$tmp/said"
}
starts() { follow 5 && grep h100 "$tmp/said"; }
users_run_jobs()
{
    follow 6 || return 1
    grep -x bob "$tmp/said" && grep long "$tmp/said" &&
        grep vision "$tmp/said" && grep speech "$tmp/said"
}
pid_of() { systemctl show -p MainPID --value "$1"; }
firnd_is_confined()
{
    pid=$(pid_of firnd)
    grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status" >"$tmp/status"
    cat "$tmp/status"
    own=$(id -u firn)
    grep -q "^Uid:.$own.$own" "$tmp/status" && grep -q 'CapEff:.0*$' "$tmp/status" &&
        grep -q 'CapBnd:.0*$' "$tmp/status" && grep -q 'NoNewPrivs:.1' "$tmp/status" &&
        grep -q 'Seccomp:.2' "$tmp/status" &&
        systemctl show -p WatchdogUSec firnd | grep -x 'WatchdogUSec=1min' &&
        journalctl -u firn-launch | grep 'control groups of their own (version 2)'
}

# --- limits -------------------------------------------------------------------
# As the page says: options of firn-launch by a file as `systemctl edit` writes it.
# The made-up driver has two GPUs; GPU 0 is /dev/nvidia1, GPU 1 /dev/nvidia0.
limits_are_taken()
{
    mkdir -p /etc/systemd/system/firn-launch.service.d
    cat >/etc/systemd/system/firn-launch.service.d/limits.conf <<EOF
[Service]
ExecStart=
ExecStart=/usr/sbin/firn-launch --state /var/lib/firn --socket /run/firn-launch/sock \
    --user firn --group firn-users --memory-max 100M --pids-max 40 --cpus-max 1 \
    --cpuset 0-1 --cpus-per-gpu 1 --devices own
EOF
    mkdir -p /usr/lib/fake && cp libnvidia-ml.so.1 /usr/lib/fake/ &&
        echo /usr/lib/fake >/etc/ld.so.conf.d/fake.conf && ldconfig || return 1
    printf '80 NVIDIA H100:\n80 NVIDIA H100:\n' >/usr/lib/fake/gpus
    for i in 0 1; do mknod -m 666 "/dev/nvidia$i" c 195 "$i" || return 1; done
    sed -i '/^gpus:/d' /etc/firn/firn.yaml
    systemctl daemon-reload && systemctl restart firn-launch firnd || return 1
    firn nodes
    systemctl is-active firn-launch firnd &&
        journalctl -u firn-launch -n 5 | grep 'GPUs of others are closed to them'
}
is_in() { firn show "$1" -o json | grep -q "\"state\": \"$2\""; }
a_hog_is_killed()
{
    as bob 'firn submit --name hog --gpus 1 --wait -- tail /dev/zero' && return 1
    firn show hog
    firn show hog -o json | grep '"reason"' | grep out-of-memory &&
        as bob 'firn why hog' | grep -i memory &&
        as bob 'firn submit --name small --gpus 1 --wait -- true'
}
a_fork_bomb_is_stopped()
{
    cat >/tmp/bomb <<'EOF'
i=0
while [ $i -lt 200 ]; do
    sleep 1000 &
    i=$((i + 1))
done
echo STARTED ALL
wait
EOF
    chmod 644 /tmp/bomb
    as bob 'firn submit --name bomb --gpus 1 -- sh /tmp/bomb' || return 1
    stopped() { ! is_in bomb running && ! is_in bomb starting && ! is_in bomb pending; }
    full() { stopped || grep -q 'max [1-9]' $groups/*/pids.events; }
    await "the limit is hit" full
    cat $groups/*/pids.events
    [ "$(pgrep -c -u bob -x sleep)" -le 40 ] || return 1
    as eve 'firn submit --name meanwhile --gpus 1 --wait -- id -un' || return 1
    as bob 'firn logs bomb' | tail -n 3
    ! as bob 'firn logs bomb' | grep 'STARTED ALL' || return 1
    stopped || as bob 'firn cancel --force bomb'
    gone() { ! pgrep -u bob -x sleep; }
    await "the processes of the bomb are gone" gone
}
open_devices='for i in 0 1; do
    (true </dev/nvidia$i) 2>&1 | grep -q "not permitted" && echo closed $i || echo open $i
done'
jobs_have_their_own_devices_and_processors()
{
    cat >/tmp/look <<EOF
$open_devices
grep Cpus_allowed_list /proc/self/status
cat /proc/self/cgroup
(echo \$\$ >/sys/fs/cgroup/cgroup.procs) 2>/dev/null && echo LEFT ITS GROUP
(echo max >$groups/\$(sed 's|.*/firn/||' /proc/self/cgroup)/memory.max) 2>/dev/null &&
    echo RAISED ITS LIMIT
echo ready
exec sleep 98765
EOF
    chmod 644 /tmp/look
    for user in bob eve; do
        as $user "firn submit --name look-$user --gpus 1 -- sh /tmp/look" || return 1
    done
    for user in bob eve; do
        ready() { as $user "firn logs look-$user" | grep -x ready; }
        await "look-$user" ready || return 1
        as $user "firn logs look-$user" | tee "$tmp/$user"
    done
    ! grep -h '[A-Z][A-Z][A-Z]' "$tmp/bob" "$tmp/eve" || return 1
    cat "$tmp/bob" "$tmp/eve" >"$tmp/both"
    for line in 'closed 0' 'closed 1' 'open 0' 'open 1'; do
        [ "$(grep -cx "$line" "$tmp/both")" = 1 ] || { echo "not once: $line"; return 1; }
    done
    for word in bob eve; do # GPU 0, the first processor, is /dev/nvidia1
        cpu=0
        ! grep -qx 'open 0' "$tmp/$word" || cpu=1
        grep "Cpus_allowed_list:.$cpu\$" "$tmp/$word" || return 1
    done
}
# Of eve's job, by what the kernel says of its process.
job_pid() { pgrep -u "$1" -x sleep; }
group_of() { echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(job_pid "$1")/cgroup")"; }
files_have_the_limits()
{
    group=$(group_of eve)
    echo "$group"
    case $group in $groups/*) ;; *) return 1 ;; esac
    [ "$(cat "$group/memory.max")" = 104857600 ] &&
        [ "$(cat "$group/memory.swap.max" 2>/dev/null || echo 0)" = 0 ] &&
        [ "$(cat "$group/pids.max")" = 40 ] &&
        [ "$(cat "$group/cpu.max")" = '100000 100000' ]
}

# --- later --------------------------------------------------------------------
is_running() { as eve "firn ls" | grep -E "\b$1\b.*running"; }
upgrades_with_a_running_job()
{
    before=$(pid_of firnd) launcher=$(pid_of firn-launch) job=$(job_pid eve)
    apt-get install -y --no-install-recommends /host/new/*.deb || return 1
    echo "before: firnd $before, firn-launch $launcher, job $job"
    [ "$(pid_of firnd)" != "$before" ] && [ "$(pid_of firn-launch)" != "$launcher" ] &&
        [ "$(job_pid eve)" = "$job" ] && await "firnd answers" is_running look-eve &&
        files_have_the_limits &&
        as bob "firn submit --name after --gpus 1 -- sh -c '$open_devices'"
    status=$?
    as bob 'firn cancel look-bob'
    await "bob's job is over" is_in look-bob cancelled
    await "job after" is_in after succeeded
    return $status
}
new_attempts_are_closed_too()
{
    as bob 'firn logs after' | tee "$tmp/after"
    [ "$(grep -c ^closed "$tmp/after")" = 1 ] && [ "$(grep -c ^open "$tmp/after")" = 1 ]
}
watchdog_restarts_a_stopped_firnd()
{
    mkdir -p /run/systemd/system/firnd.service.d
    printf '[Service]\nWatchdogSec=30\n' >/run/systemd/system/firnd.service.d/w.conf
    systemctl daemon-reload && systemctl restart firnd || return 1
    before=$(pid_of firnd) job=$(job_pid eve)
    kill -STOP "$before"
    is_new() { now=$(pid_of firnd) && [ "$now" != 0 ] && [ "$now" != "$before" ]; }
    await "another firnd" is_new && await "firnd answers" is_running look-eve &&
        [ "$(job_pid eve)" = "$job" ]
}
removes_and_keeps_running_jobs()
{
    job=$(job_pid eve)
    apt-get remove -y firnd || return 1
    [ -z "$(pgrep -x firn-launch)" ] && [ -e /var/lib/firn/firn.db ] &&
        [ -e /etc/firn/firn.yaml ] && [ "$(job_pid eve)" = "$job" ] || return 1
    apt-get install -y --no-install-recommends /host/new/firnd_*.deb &&
        await "the job is taken over" is_running look-eve &&
        [ "$(job_pid eve)" = "$job" ] && as eve 'firn cancel look-eve' &&
        await "the job is cancelled" is_in look-eve cancelled || return 1
    empty() { ! job_pid eve && ! grep -l 'populated 1' $groups/*/cgroup.events; }
    await "its group is empty" empty
}
purges()
{
    rm -f /etc/firn/shares.yaml # the administrator's own
    apt-get purge -y firn firnd libfirn0 libfirn-train0 libfirn-dev python3-firn || return 1
    left=$(find /etc /usr /lib/ /var/lib/firn -name '*firn*' \
        ! -path '/etc/systemd/system/*' 2>/dev/null)
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}

try the_kernel_has_control_groups_of_version_2 has_controllers
try packages_are_installed_as_the_page_says installs
try eight_users_are_made makes_users
try the_configuration_has_no_mistake configures
try firnd_and_the_launcher_start starts
try users_run_jobs_as_the_page_says users_run_jobs
try firnd_is_not_root_and_confined firnd_is_confined
try the_launcher_takes_all_limits limits_are_taken
try a_job_beyond_its_memory_is_killed_and_says_so a_hog_is_killed
try a_fork_bomb_is_stopped_and_others_go_on a_fork_bomb_is_stopped
try a_job_opens_only_its_own_GPUs_and_stays_on_its_processors \
    jobs_have_their_own_devices_and_processors
try the_control_group_of_a_job_has_the_limits files_have_the_limits
try an_upgrade_keeps_a_running_job_and_its_limits upgrades_with_a_running_job
try jobs_after_the_upgrade_have_their_own_GPUs_only new_attempts_are_closed_too
try the_watchdog_restarts_a_firnd_that_stands_still watchdog_restarts_a_stopped_firnd
try removal_keeps_running_jobs_and_a_new_installation_takes_them_over \
    removes_and_keeps_running_jobs
try a_purge_leaves_nothing purges
echo "1..$n"
