#!/bin/sh
# next.sh - firn built and tried with Slurm on Debian 13, the release after the one
# that the check runs on: another compiler, other libraries, Slurm 24.11.
#
# Unpacks a Debian 13 of debootstrap's variant minbase with firn's packages and
# Slurm's, kept as a tar file in $FIRN_CACHE (default ~/.cache/firn), copies the
# tracked files of this tree there, builds them, and runs the tests on Slurm
# (tests/e2e/3*) but for the soak. A case for each. Skipped (status 77, with a
# word) without root, debootstrap, namespaces or a Debian mirror. About five
# minutes, and five more for the first time.
# Part of `make next-test`, which is a part of soak. TAP on stdout.
cd "$(dirname "$0")/../.." || exit 1
. tests/deb/bare.sh # its folders, skip and strap
packages="build-essential pkg-config libcyaml-dev libyaml-dev libcminpack-dev
liblapack-dev libcurl4-openssl-dev libsqlite3-dev libuv1-dev libmicrohttpd-dev
libjansson-dev libsodium-dev libcmocka-dev zlib1g-dev procps iproute2 curl python3
git slurmctld slurmd slurm-client munge slurmdbd mariadb-server"

# in_next COMMAND...: as root in the Debian, with mounts of its own. The folders
# of the kernel go with the namespace.
in_next()
{
    unshare --mount --propagation private sh -c '
        root=$1; shift
        for at in proc sys dev; do mount --rbind /$at "$root/$at"; done
        mount --make-rslave /
        exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$bare" "$@"
}

make_next()
{
    strap trixie "$bare"
    printf '#!/bin/sh\nexit 101\n' >"$bare/usr/sbin/policy-rc.d"
    chmod +x "$bare/usr/sbin/policy-rc.d" # no service of the packages starts
    # shellcheck disable=SC2086 # names
    { in_next apt-get update && in_next apt-get install -y \
        --no-install-recommends $packages; } >"$tmp/log" 2>&1 ||
        skip "apt-get failed: $(tail -n 1 "$tmp/log")"
    mkdir -p "$cache"
    tar -cf "$cache/trixie.tar.$$" --one-file-system -C "$bare" . &&
        mv "$cache/trixie.tar.$$" "$cache/trixie.tar"
}

[ "$(id -u)" = 0 ] || skip "a Debian of its own needs root"
for tool in debootstrap unshare chroot git; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done
unshare --mount true 2>/dev/null || skip "no namespace can be made here"
mkdir "$bare"
if [ -f "$cache/trixie.tar" ]; then
    tar -xf "$cache/trixie.tar" -C "$bare" || exit 1
else
    make_next
fi
mkdir "$bare/firn"
git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$bare/firn" || exit 1
in_next sh -c 'cd /firn && make -s -j2 built' >"$tmp/log" 2>&1 || {
    cat "$tmp/log"
    printf '1..1\nnot ok 1 - it builds\n'
    exit 1
}
printf '# Slurm %s\nok 1 - it builds\n' \
    "$(in_next dpkg-query -W -f '${Version}' slurmctld)"

n=1 bad=0
for test in tests/e2e/3*-slurm*.sh; do
    case $test in *-soak-*) continue ;; esac
    n=$((n + 1))
    name=$(basename "$test" .sh)
    in_next env FIRN=/firn/build/firn FIRN_BUILD=/firn/build \
        sh -c "cd /firn && timeout 600 sh $test" >"$tmp/log" 2>&1 </dev/null
    case $? in
    0) echo "ok $n - $name" ;;
    77) echo "ok $n - $name # SKIP $(sed -n 's/^skipped: //p' "$tmp/log" | head -n 1)" ;;
    *)
        bad=1
        echo "not ok $n - $name"
        sed 's/^/# /' "$tmp/log"
        ;;
    esac
done
echo "1..$n"
exit $bad
