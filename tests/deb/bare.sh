# bare.sh - a bare Debian with its own systemd, for tests of packages. Sourced, also
# by next.sh, which uses its folders and `strap` only.
#
# `bare_up` unpacks a Debian 12 of debootstrap's variant minbase, with systemd,
# below $tmp and boots it in namespaces of its own (processes, mounts, host name,
# control groups; the network is the host's). The unpacked system is kept as a
# tar file in $FIRN_CACHE (default ~/.cache/firn), with what apt has loaded.
# `in_bare COMMAND...` runs a command as root in it. At the end of the test all
# of its processes are killed and all of its files removed.
#
# Skipped (status 77, with a word) without root, debootstrap, namespaces, a
# control group file system of version 2, or a Debian mirror.
set -u
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-bare.XXXXXX") || exit 1
bare=$tmp/root bare_pid='' bare_group=''
cache=${FIRN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firn}
debs=$(cd "${FIRN_BUILD:-build}/deb" 2>/dev/null && pwd)

skip()
{
    echo "1..0 # SKIP $1"
    exit 77
}

bare_down()
{
    [ -z "$bare_pid" ] || kill -9 "$bare_pid" 2>/dev/null
    if [ -n "$bare_group" ]; then
        i=0
        while [ "$i" -lt 100 ] && [ -d "$bare_group" ]; do
            find "$bare_group" -depth -type d -exec rmdir {} + 2>/dev/null
            i=$((i + 1))
            [ ! -d "$bare_group" ] || sleep 0.1
        done
    fi
    rm -rf --one-file-system "$tmp"
}
trap bare_down EXIT
trap 'exit 130' INT TERM

# The mirror that this host uses; deb.debian.org without a Debian here.
mirror()
{
    cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
        sed -n 's|^\(URIs: *\|deb \)\(http[^ ]*/debian\)/*\( .*\)*$|\2|p' |
        head -n 1
}

# strap SUITE FOLDER: unpacks a Debian, which finds its mirror as this host does.
strap()
{
    at=$(mirror)
    debootstrap --variant=minbase "$1" "$2" \
        "${at:-http://deb.debian.org/debian}" >"$tmp/log" 2>&1 ||
        skip "debootstrap failed: $(tail -n 1 "$tmp/log")"
    cp /etc/resolv.conf /etc/hosts "$2/etc/"
    for file in /etc/apt/apt.conf.d/99*; do # of a mirror behind a proxy
        [ ! -f "$file" ] || cp "$file" "$2/etc/apt/apt.conf.d/"
    done
}

# Makes the tar file, in about two minutes.
bare_make()
{
    base=$tmp/base
    strap bookworm "$base"
    {
        chroot "$base" apt-get update &&
            DEBIAN_FRONTEND=noninteractive chroot "$base" apt-get install -y \
                --no-install-recommends systemd systemd-sysv dbus procps sqlite3
    } >"$tmp/log" 2>&1 || skip "apt-get failed: $(tail -n 1 "$tmp/log")"
    mkdir -p "$cache"
    tar -cf "$cache/bookworm.tar.$$" -C "$base" . &&
        mv "$cache/bookworm.tar.$$" "$cache/bookworm.tar"
    rm -rf --one-file-system "$base"
}

# Runs in the new namespaces; becomes process 1.
bare_init='
mount --make-rprivate / &&
mount --bind "$1" "$1" &&
mount -t proc proc "$1/proc" &&
mount -t sysfs sysfs "$1/sys" &&
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup" &&
mount -t tmpfs tmpfs "$1/run" &&
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp" &&
mount --rbind /dev "$1/dev" &&
exec env -i container=firn PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" \
    /lib/systemd/systemd --log-target=journal --show-status=no'

in_bare()
{
    nsenter -t "$bare_pid" -m -p -u -i -C -r -w env -i HOME=/root \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

# await WHAT COMMAND...: until it succeeds, two minutes at most.
await()
{
    what=$1
    shift
    i=0
    until "$@" >/dev/null 2>&1; do
        i=$((i + 1))
        [ "$i" -lt 1200 ] || { echo "waited in vain: $what"; return 1; }
        sleep 0.1
    done
}

bare_runs()
{
    in_bare systemctl is-system-running 2>/dev/null |
        grep -q -x -e running -e degraded
}

# Process 1 of the new namespace: the child of unshare.
find_pid()
{
    bare_pid=$(pgrep -P "$unshare_pid") && [ -n "$bare_pid" ] &&
        [ "$(cat "/proc/$bare_pid/comm")" = systemd ]
}

bare_up()
{
    [ "$(id -u)" = 0 ] || skip "a bare Debian needs root"
    for tool in debootstrap unshare nsenter chroot dpkg-deb pgrep; do
        command -v "$tool" >/dev/null || skip "there is no $tool"
    done
    groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$groups" ] || skip "there is no cgroup2 file system"
    [ -n "$debs" ] && ls "$debs"/firnd_*.deb >/dev/null 2>&1 ||
        skip "there are no packages: run make deb"
    [ -f "$cache/bookworm.tar" ] || bare_make
    mkdir "$bare"
    tar -xf "$cache/bookworm.tar" -C "$bare" || exit 1
    bare_group=$groups/firn-bare-$$
    mkdir "$bare_group" || skip "no control group can be made in $groups"
    (
        sh -c 'echo $PPID' >"$bare_group/cgroup.procs" || exit 1
        exec unshare --pid --fork --mount --uts --ipc --cgroup \
            sh -c "$bare_init" sh "$bare"
    ) >"$tmp/boot.log" 2>&1 &
    unshare_pid=$!
    await "systemd begins" find_pid && await "systemd runs" bare_runs ||
        skip "systemd does not start here: $(tail -n 1 "$tmp/boot.log")"
}
