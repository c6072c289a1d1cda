#!/bin/sh
# vm.sh - the packages in a virtual machine, whose kernel has all controllers of
# control groups version 2. Part of `make vm-test` and so of `make soak`. TAP.
#
# The machine has a Debian 12 with its own kernel and systemd, one processor in
# use by the host (two in its eyes), 1.8 GB and no network; its root file system
# is unpacked into its memory. It runs tests/deb/guest.sh, which follows
# docs/admin.md and tries limits, devices, an upgrade, a removal and a purge, and
# writes TAP to the serial console; these lines are printed here.
#
# The unpacked Debian and the kernel are kept in $FIRN_CACHE (default
# ~/.cache/firn) with what our packages depend on. Without KVM of the processor
# (also: a /dev/kvm of a host that is a virtual machine without nested ones) qemu
# emulates it: systemd is up after 20 s of processor time, an installation by apt
# takes more than 25. FIRN_VM_ACCEL=kvm or tcg chooses; FIRN_VM_S is the limit in
# seconds (3000).
#
# Skipped (status 77, with a word) without root, qemu, cpio, debootstrap or a
# Debian mirror.
cd "$(dirname "$0")/../.." || exit 1
. tests/deb/bare.sh
[ "$(id -u)" = 0 ] || skip "to unpack a Debian needs root"
for tool in qemu-system-x86_64 cpio debootstrap chroot dpkg-deb; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done
[ -n "$debs" ] && ls "$debs"/firnd_*.deb >/dev/null 2>&1 ||
    skip "there are no packages: run make deb"
fake=${FIRN_BUILD:-build}/tests/fake/libnvidia-ml.so.1
[ -e "$fake" ] || skip "there is no made-up driver: run make tests"
has_kvm() { [ -w /dev/kvm ] && [ -d /sys/module/kvm_intel -o -d /sys/module/kvm_amd ]; }
accel=${FIRN_VM_ACCEL:-$(has_kvm && echo kvm || echo tcg)}

# In $base: our packages come and go, so that what they need stays.
add_dependencies()
{
    mkdir "$base/debs" && cp "$debs"/*.deb "$base/debs/" &&
        rm -f "$base"/debs/*dbgsym* &&
        printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d" &&
        chmod 755 "$base/usr/sbin/policy-rc.d" || return 1
    DEBIAN_FRONTEND=noninteractive chroot "$base" sh -e -c '
        apt-get update
        apt-get install -y --no-install-recommends /debs/*.deb
        apt-get purge -y firn firnd libfirn0 libfirn-train0 libfirn-dev python3-firn
        kernel=$(apt-cache depends linux-image-cloud-amd64 |
            sed -n "s/.*Depends: \(linux-image-6[^ ]*\)$/\1/p" | head -n 1)
        cd /debs && apt-get download "$kernel"' || return 1
    dpkg-deb -x "$base"/debs/linux-image-6*.deb "$tmp/kernel"
}

# What a machine without disks, network and terminals does not need: the emulated
# processor takes minutes for it.
slim()
{
    rm -rf "$base/debs" "$base"/usr/sbin/policy-rc.d "$base"/var/cache/apt/* \
        "$base"/var/lib/apt/lists/* "$base"/usr/share/doc/* \
        "$base"/usr/share/locale/* "$base"/usr/share/man/* "$base"/boot/*
    for unit in systemd-udevd systemd-udev-trigger systemd-timesyncd e2scrub_reap \
        getty@tty1 serial-getty@ttyS0 systemd-logind systemd-networkd \
        systemd-journal-flush systemd-update-utmp; do
        ln -sf /dev/null "$base/etc/systemd/system/$unit.service"
    done
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
        e2scrub_all.timer fstrim.timer systemd-tmpfiles-clean.timer \
        systemd-udevd-control.socket systemd-udevd-kernel.socket; do
        ln -sf /dev/null "$base/etc/systemd/system/$unit"
    done
    ln -sf ../lib/systemd/systemd "$base/sbin/init"
    ln -sf sbin/init "$base/init"
    cat >"$base/etc/systemd/system/guest.service" <<EOF
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /host/tests/deb/guest.sh
ExecStopPost=/bin/systemctl --no-block poweroff --force --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
EOF
    mkdir -p "$base/etc/systemd/system/multi-user.target.wants"
    ln -sf ../guest.service "$base/etc/systemd/system/multi-user.target.wants/"
    echo vm >"$base/etc/hostname"
}

archive() { (cd "$1" && find . | cpio --quiet -o -H newc) >"$2"; }

vm_make()
{
    [ -f "$cache/bookworm.tar" ] || bare_make
    base=$tmp/base
    mkdir "$base" && tar -xf "$cache/bookworm.tar" -C "$base" || exit 1
    add_dependencies >"$tmp/log" 2>&1 ||
        skip "the machine cannot be made: $(tail -n 1 "$tmp/log")"
    slim
    archive "$base" "$cache/vm.cpio.$$" &&
        cp "$tmp"/kernel/boot/vmlinuz-* "$cache/vm.kernel" &&
        mv "$cache/vm.cpio.$$" "$cache/vm.cpio" || exit 1
    rm -rf --one-file-system "$base" "$tmp/kernel"
}
[ -f "$cache/vm.cpio" ] && [ -f "$cache/vm.kernel" ] || vm_make

# The packages, the same with a higher version, and what the test reads.
version=$(dpkg-deb -f "$(ls "$debs"/firnd_*.deb)" Version)
mkdir -p "$tmp/host/host/build/deb" "$tmp/host/host/new" "$tmp/host/host/tests/deb" \
    "$tmp/host/host/tests/lib" "$tmp/host/host/docs"
for deb in "$debs"/*.deb; do
    case $deb in *dbgsym*) continue ;; esac
    cp "$deb" "$tmp/host/host/build/deb/"
    rm -rf "$tmp/repack"
    dpkg-deb -R "$deb" "$tmp/repack" &&
        sed -i "s/\([ (]\)$version\([,)]\|\$\)/\1$version+1\2/g" \
            "$tmp/repack/DEBIAN/control" &&
        dpkg-deb -Zgzip -z1 -b "$tmp/repack" "$tmp/host/host/new/" >/dev/null || exit 1
done
cp tests/deb/guest.sh "$tmp/host/host/tests/deb/"
cp tests/lib/cases.sh "$tmp/host/host/tests/lib/"
cp docs/admin.md "$tmp/host/host/docs/"
cp "$fake" "$tmp/host/host/"
archive "$tmp/host" "$tmp/host.cpio"
cat "$cache/vm.cpio" "$tmp/host.cpio" >"$tmp/initrd" || exit 1
rm -rf "$tmp/host" "$tmp/host.cpio" "$tmp/repack"

# Of an emulated processor what Debian needs: every feature costs time.
cpu=Nehalem how=tcg,tb-size=512
[ "$accel" != kvm ] || { cpu=host how=kvm; }
echo "# the machine runs by $accel"
timeout -k 5 "${FIRN_VM_S:-3000}" qemu-system-x86_64 -accel "$how" -cpu "$cpu" -smp 2 -m 1900 \
    -display none -monitor none -serial stdio -no-reboot -nic none \
    -kernel "$cache/vm.kernel" -initrd "$tmp/initrd" \
    -append "console=ttyS0 panic=-1 mitigations=off nokaslr no_timer_check \
        random.trust_cpu=on systemd.show_status=no" \
    </dev/null 2>&1 | sed -u 's|\r||' | tee "${FIRN_VM_LOG:-$tmp/console}" |
    grep --line-buffered -e '^ok ' -e '^not ok ' -e '^#' -e '^1\.\.' | tee "$tmp/tap"
grep -q '^1\.\.' "$tmp/tap" || {
    echo "not ok - the machine did not come to the end of its test"
    tail -n 20 "${FIRN_VM_LOG:-$tmp/console}" | sed 's/^/# /'
    exit 1
}
