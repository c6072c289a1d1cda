#!/bin/sh
# packages.sh - the packages in a bare Debian: installed, upgraded while jobs run,
# backed up and restored, removed, purged. Part of `make deb-test`. TAP on stdout.
cd "$(dirname "$0")/../.." || exit 1
. tests/deb/bare.sh
. tests/lib/cases.sh
bare_up
version=$(dpkg-deb -f "$(ls "$debs"/firnd_*.deb)" Version)
newer=$version+1

# The same packages with a higher version.
repack()
{
    mkdir -p "$bare/debs/new"
    for deb in "$debs"/*.deb; do
        case $deb in *dbgsym*) continue ;; esac
        cp "$deb" "$bare/debs/"
        rm -rf "$tmp/repack"
        dpkg-deb -R "$deb" "$tmp/repack" &&
            sed -i "s/\([ (]\)$version\([,)]\|\$\)/\1$newer\2/g" \
                "$tmp/repack/DEBIAN/control" &&
            dpkg-deb -b "$tmp/repack" "$bare/debs/new/" || return 1
    done
}

# apt FOLDER: installs all packages in it as an administrator would.
apt()
{
    in_bare sh -c "apt-get install -y --no-install-recommends $1/*.deb"
}

as_ann()
{
    in_bare setpriv --reuid ann --regid ann --init-groups \
        env HOME=/home/ann FIRN_PATIENCE=60 "$@"
}

installs()
{
    repack && apt /debs || return 1
    in_bare dpkg -l | grep -E 'firn' | tee "$tmp/list"
    [ "$(grep -c '^ii ' "$tmp/list")" -eq 6 ]
}

users_and_folders_are_there()
{
    in_bare id firn | grep firn-users &&
        [ "$(in_bare stat -c '%U %a' /var/lib/firn)" = 'firn 711' ] &&
        [ "$(in_bare stat -c '%U %a' /run/firn-launch)" = 'root 755' ] &&
        in_bare systemctl is-enabled firnd firn-launch &&
        in_bare systemctl is-active firn-launch
}

# This host has no GPUs that the test may use: four are declared.
starts()
{
    echo 'gpus: 1x4:v100@16' >>"$bare/etc/firn/firn.yaml"
    in_bare firnd --check-config --config /etc/firn/firn.yaml &&
        in_bare systemctl restart firnd && in_bare systemctl is-active firnd &&
        in_bare firn nodes | grep v100 &&
        in_bare systemctl show -p MainPID,User,WatchdogUSec firnd |
        grep -x 'WatchdogUSec=1min'
}

is_running() { as_ann firn ls | grep -E "\b$1\b.*running"; }
job_pid() { in_bare pgrep -u ann -f "sleep $1"; }
firnd_pid() { in_bare systemctl show -p MainPID --value firnd; }

runs_jobs_as_their_users()
{
    in_bare useradd -m -s /bin/sh -G firn-users ann &&
        in_bare useradd -m -s /bin/sh bob || return 1
    as_ann sh -c 'cd && firn submit --name long --gpus 2 -- sleep 98765' &&
        await "job long runs" is_running long && job_pid 98765 || return 1
    as_ann sh -c 'cd && firn submit --name brief --gpus 1 --wait -- id -un' &&
        as_ann firn logs brief | grep -x ann || return 1
    ! in_bare setpriv --reuid bob --regid bob --init-groups firn ls
}

# firnd and firn-launch are new processes; the job is the same process and the
# same attempt, and a file that was edited is kept.
upgrades_with_a_running_job()
{
    before=$(firnd_pid) job=$(job_pid 98765)
    apt /debs/new || return 1
    in_bare dpkg -l firnd | grep -F "$newer" || return 1
    [ "$(firnd_pid)" != "$before" ] && [ "$(job_pid 98765)" = "$job" ] ||
        { echo "firnd was $before, the job $job"; return 1; }
    await "firnd answers" is_running long &&
        as_ann firn show long | tee "$tmp/show" &&
        ! grep -i 'attempt *2' "$tmp/show" &&
        grep -x 'gpus: 1x4:v100@16' "$bare/etc/firn/firn.yaml" &&
        as_ann sh -c 'cd && firn submit --gpus 1 --wait -- true'
}

# A scheduler that stands still is started again by the watchdog.
watchdog_restarts_a_stopped_firnd()
{
    in_bare mkdir -p /run/systemd/system/firnd.service.d
    in_bare sh -c 'printf "[Service]\nWatchdogSec=3\n" \
        >/run/systemd/system/firnd.service.d/w.conf'
    in_bare systemctl daemon-reload && in_bare systemctl restart firnd || return 1
    before=$(firnd_pid) job=$(job_pid 98765)
    in_bare kill -STOP "$before"
    is_new() { now=$(firnd_pid) && [ "$now" != 0 ] && [ "$now" != "$before" ]; }
    await "another firnd" is_new && await "firnd answers" is_running long &&
        [ "$(job_pid 98765)" = "$job" ]
}

reload_refuses_a_mistake()
{
    cp "$bare/etc/firn/firn.yaml" "$tmp/good.yaml"
    echo 'polcy: fifo' >>"$bare/etc/firn/firn.yaml"
    ! in_bare systemctl reload firnd
    status=$?
    cp "$tmp/good.yaml" "$bare/etc/firn/firn.yaml"
    [ "$status" = 0 ] && in_bare systemctl reload firnd &&
        in_bare systemctl is-active firnd
}

# What docs/operate.md says, word by word.
block()
{
    awk -v want="$1" '/^## /{ on = $0 == "## Backup and restore" }
        on && /^```sh/ { n++; code = 1; next } /^```/ { code = 0 }
        on && code && n == want' docs/operate.md
}
backs_up_and_restores()
{
    [ -n "$(block 1)" ] && [ -n "$(block 2)" ] || return 1
    as_ann firn ls --all -o json >"$tmp/before" || return 1
    block 1 >"$bare/root/backup.sh"
    in_bare sh -e /root/backup.sh || return 1
    as_ann firn cancel --force long
    gone() { ! job_pid 98765; }
    await "job long is gone" gone || return 1
    as_ann sh -c 'cd && firn submit --name later --gpus 1 --wait -- true' || return 1
    block 2 >"$bare/root/restore.sh"
    in_bare sh -e /root/restore.sh || return 1
    answers() { as_ann firn ls; }
    await "firnd answers" answers || return 1
    as_ann firn ls --all | tee "$tmp/after"
    grep brief "$tmp/after" && ! grep later "$tmp/after" &&
        as_ann sh -c 'cd && firn submit --gpus 1 --wait -- true'
}

has_pages_and_completions()
{
    for file in /usr/share/man/man1/firn.1.gz /usr/share/man/man5/firn.yaml.5.gz \
        /usr/share/man/man5/firn-job.5.gz /usr/share/man/man8/firnd.8.gz \
        /usr/share/man/man8/firn-launch.8.gz \
        /usr/share/bash-completion/completions/firn \
        /usr/share/zsh/vendor-completions/_firn \
        /usr/share/fish/vendor_completions.d/firn.fish; do
        in_bare test -s "$file" || { echo "no $file"; return 1; }
    done
}

python_package_finds_its_library()
{
    in_bare python3 -c 'import firn._lib as l; print(l.lib().firn_process_age_s())'
}

removes_and_keeps_the_state()
{
    as_ann sh -c 'cd && firn submit --name last --gpus 1 -- sleep 98766' &&
        await "job last runs" is_running last || return 1
    as_ann sh -c 'cd && echo mine >kept'
    in_bare apt-get remove -y firn firnd || return 1
    [ -z "$(in_bare pgrep -x firn-launch)" ] && [ -e "$bare/var/lib/firn/firn.db" ] &&
        [ -e "$bare/etc/firn/firn.yaml" ] && [ ! -e "$bare/usr/bin/firnd" ] &&
        job_pid 98766
}

installs_again_and_takes_the_job_over()
{
    job=$(job_pid 98766)
    apt /debs/new && await "job last runs" is_running last &&
        [ "$(job_pid 98766)" = "$job" ] && as_ann firn cancel --force last
}

purges()
{
    # A file of a user in a folder of a job stays, and the purge says so.
    in_bare sh -c 'mkdir -p /var/lib/firn/jobs/1/work && echo x >/var/lib/firn/jobs/1/work/result'
    in_bare apt-get purge -y firn firnd libfirn0 libfirn-train0 libfirn-dev \
        python3-firn >"$tmp/purge" 2>&1 || { cat "$tmp/purge"; return 1; }
    grep 'has files that jobs wrote' "$tmp/purge" || return 1
    find "$bare/var/lib/firn" -type f >"$tmp/left"
    [ "$(cat "$tmp/left")" = "$bare/var/lib/firn/jobs/1/work/result" ] ||
        { echo left: && cat "$tmp/left"; return 1; }
    left=$(cd "$bare" && find etc usr lib/ -name '*firn*' ! -path 'etc/systemd/*')
    [ -z "$left" ] || { echo "left: $left"; return 1; }
    in_bare id firn
}

try all_packages_install_in_a_bare_debian installs
try users_folders_and_units_are_there users_and_folders_are_there
try firnd_starts_with_its_watchdog starts
try a_job_runs_as_its_user_and_strangers_are_refused runs_jobs_as_their_users
try an_upgrade_keeps_the_process_of_a_running_job upgrades_with_a_running_job
try the_watchdog_restarts_a_firnd_that_stands_still watchdog_restarts_a_stopped_firnd
try a_reload_with_a_mistake_is_refused_and_changes_nothing reload_refuses_a_mistake
try a_backup_is_made_while_jobs_run_and_restored backs_up_and_restores
try manual_pages_and_completions_are_there has_pages_and_completions
try the_python_package_finds_its_library python_package_finds_its_library
try removal_keeps_state_and_running_jobs removes_and_keeps_the_state
try a_new_installation_takes_running_jobs_over installs_again_and_takes_the_job_over
try a_purge_leaves_files_of_users_only purges
echo "1..$n"
