#!/bin/sh
# deb.sh - makes the Debian packages of this tree.
#
#   deb.sh OUT
#
# OUT gets *.deb, *.changes and *.buildinfo. The packages are built in OUT/firn, a
# copy of the files of the tree (those that git tracks or does not ignore); its
# objects are kept, so that a second call builds only what changed: a file whose
# text differs from the copy of before gets the present time, as its own may be
# older than an object that was made of that copy. With
# FIRN_DEB_VERSION the packages have that version. With FIRN_DEB_LINTIAN=1
# lintian looks at them, and every error or warning of it is a failure.
#
# debhelper, not dpkg-deb by hand: it writes the parts of maintainer scripts that
# start, restart and stop units, make users and folders, and run ldconfig, as
# Debian's policy asks for, and finds the dependencies of programs by their
# libraries. With dpkg-deb all that would be ours to write and to keep right.
set -eu
out=$1
for tool in dpkg-buildpackage dh dh_python3 fakeroot; do
    command -v "$tool" >/dev/null || {
        echo "deb.sh: there is no $tool: apt-get install dpkg-dev debhelper" \
            "dh-python fakeroot" >&2
        exit 2
    }
done
mkdir -p "$out/firn"
rm -rf "$out/before"
mkdir "$out/before"
find "$out/firn" -mindepth 1 -maxdepth 1 ! -name build \
    -exec mv -t "$out/before" {} +
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -name build -prune -o -type f -print0
fi | tar --null --ignore-failed-read -T - -cf - 2>/dev/null |
    tar -xf - -C "$out/firn"

cd "$out/firn"
find . -path ./build -prune -o -type f -print | while read -r file; do
    cmp -s "$file" "../before/$file" || touch "$file"
done
rm -rf ../before
if [ -n "${FIRN_DEB_VERSION:-}" ]; then
    {
        printf 'firn (%s) unstable; urgency=medium\n\n  * Test.\n\n' \
            "$FIRN_DEB_VERSION"
        printf ' -- The firn project <maintainers@firn.invalid>  %s\n\n' \
            "$(date -R)"
        cat debian/changelog
    } >debian/changelog.new
    mv debian/changelog.new debian/changelog
fi
FIRN_KEEP_OBJECTS=1 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }parallel=$(nproc)" \
    dpkg-buildpackage -b -us -uc -d >../build.log 2>&1 || {
    tail -n 30 ../build.log >&2
    echo "deb.sh: the packages could not be built: see $out/build.log" >&2
    exit 1
}
cd ..
if [ -n "${FIRN_DEB_LINTIAN:-}" ]; then
    lintian --fail-on error,warning --suppress-tags bad-distribution-in-changes-file \
        -- *.changes
fi
ls -- *.deb
