#!/bin/sh
# 908-packaging.sh - what the packages are made of fits the programs.
#
# The packages themselves are built and tried in a bare Debian by `make
# deb-test`; this is the part that needs neither root nor minutes. TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${FIRN_BUILD:-build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-packaging.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
. tests/lib/cases.sh
[ -x "$build/firnd" ] || { echo "1..0 # SKIP firnd is not built"; exit 77; }
firnd=$build/firnd firn=$build/firn launch=$build/firn-launch

version=$(sed -n 's/^#define FIRN_VERSION *"\(.*\)"/\1/p' include/firn/version.h)

one_version_everywhere()
{
    sed -n '1s/^firn (\(.*\)) .*/\1/p' debian/changelog | grep -x "$version" &&
        grep -x "version = \"$version\"" python/pyproject.toml &&
        grep -x "## $version" CHANGELOG.md &&
        "$firnd" --version | grep -x "firnd $version"
}

# keys: every option of firnd that firn.yaml can have.
keys()
{
    "$firnd" --help | grep -o -e '--[a-z][a-z-]*' | sed 's/^--//' | sort -u |
        grep -v -x -e config -e check-config -e help -e version |
        sed 's/^set$/settings/'
}

# The group of the file is the package's: here any group will do.
example_is_accepted()
{
    tools/config_example.sh "$firnd" >"$tmp/firn.yaml" &&
        sed "s/^socket-group: .*/socket-group: $(id -gn)/" "$tmp/firn.yaml" \
            >"$tmp/here.yaml" &&
        "$firnd" --check-config --config "$tmp/here.yaml" || return 1
    echo 'jobs-maxx: 3' >>"$tmp/here.yaml"
    ! "$firnd" --check-config --config "$tmp/here.yaml" 2>"$tmp/why" &&
        grep -F "did you mean 'jobs-max'" "$tmp/why"
}

example_has_every_option()
{
    keys >"$tmp/keys"
    [ -s "$tmp/keys" ] || return 1
    while read -r key; do
        grep -q "^#\{0,1\}$key: ." "$tmp/firn.yaml" ||
            { echo "the example has no $key"; return 1; }
    done <"$tmp/keys"
}

# A comment with a default is a setting that firnd accepts.
defaults_are_accepted()
{
    sed -e "s/^socket-group: .*/socket-group: $(id -gn)/" \
        -e '/^#[a-z-]*: [A-Z:]*$/d' -e 's/^#\([a-z-]*: \)/\1/' \
        "$tmp/firn.yaml" >"$tmp/all.yaml"
    [ "$(grep -c '^[a-z]' "$tmp/all.yaml")" -gt 12 ] &&
        "$firnd" --check-config --config "$tmp/all.yaml"
}

check_config_finds()
{
    words=$1
    shift
    ! "$firnd" --check-config "$@" >"$tmp/out" 2>&1 && cat "$tmp/out" &&
        grep -qF -e "$words" "$tmp/out"
}
mistakes_are_found_before_a_start()
{
    check_config_finds "did you mean 'skip'" --set fifo.skp=1 &&
        check_config_finds "no policy 'nope'" --policy nope &&
        check_config_finds "no group 'no-such-group'" \
            --socket-group no-such-group &&
        check_config_finds "cluster '1xx'" --gpus 1xx &&
        check_config_finds "of no policy or engine" --set nosuch.x=1 &&
        check_config_finds "cannot read" --token-file "$tmp/none" &&
        [ ! -e "$tmp/state" ] &&
        "$firnd" --check-config --state "$tmp/state" && [ ! -e "$tmp/state" ]
}

pages_have_every_option()
{
    tools/manpages.sh "$firnd" "$launch" "$tmp/man" || return 1
    for key in $(keys); do
        grep -q "^\.It Ic .*$key *:" "$tmp/man/firn.yaml.5" ||
            grep -q "^\.It .*Ic $key *:" "$tmp/man/firn.yaml.5" ||
            { echo "firn.yaml.5 has no $key"; return 1; }
        [ "$key" != settings ] || key=set
        grep -q "^\.It .*Fl -$key\( \|\$\)" "$tmp/man/firnd.8" ||
            { echo "firnd.8 has no --$key"; return 1; }
    done
    for option in $("$launch" --help | grep -o -e '^  --[a-z-]*'); do
        grep -q "^\.It Fl $(echo "$option" | cut -c 2-)" "$tmp/man/firn-launch.8" ||
            { echo "firn-launch.8 has no $option"; return 1; }
    done
    grep -q '^\.It checkpoint.grace' "$tmp/man/firn-job.5"
}

pages_are_formatted_without_a_warning()
{
    command -v groff >/dev/null || { echo "# there is no groff"; return 0; }
    for page in "$tmp"/man/* docs/firn.1; do
        groff -man -mandoc -ww -z -Tutf8 "$page" >"$tmp/why" 2>&1
        [ ! -s "$tmp/why" ] || { echo "$page:"; head "$tmp/why"; return 1; }
    done
}

completions_are_scripts_of_their_shells()
{
    for shell in bash zsh fish; do
        "$firn" completion "$shell" >"$tmp/completion" || return 1
        [ -s "$tmp/completion" ] || return 1
        ! command -v "$shell" >/dev/null || "$shell" -n "$tmp/completion" ||
            return 1
    done
}

units_are_valid()
{
    command -v systemd-analyze >/dev/null ||
        { echo "# there is no systemd-analyze"; return 0; }
    here=$(cd "$build" && pwd)
    cp debian/firnd.service "$tmp/firnd.service"
    cp debian/firn-launch.service "$tmp/firn-launch.service"
    sed -i -e "s|/usr/bin/firnd|$here/firnd|" -e '/^Documentation=/d' \
        -e "s|/usr/sbin/firn-launch|$here/firn-launch|" "$tmp"/*.service
    systemd-analyze verify "$tmp/firnd.service" "$tmp/firn-launch.service" \
        >"$tmp/why" 2>&1
    ! grep -v 'Failed to\|^$' "$tmp/why"
}

# Every file of `make install` is in a package, and packages name no other.
files_of_make_install_are_packaged()
{
    cat debian/*.install | sort >"$tmp/packaged"
    for file in usr/bin/firn usr/bin/firnd usr/sbin/firn-launch \
        usr/share/man/man1/firn.1 etc/firn/firn.yaml \
        $(cd docs/man && ls -- *.in | sed 's|\(.*\.\(.\)\)\.in|usr/share/man/man\2/\1|'); do
        grep -qx "$file" "$tmp/packaged" || { echo "no package has $file"; return 1; }
    done
    for package in firn firnd libfirn0 libfirn-dev libfirn-train0 python3-firn; do
        grep -qx "Package: $package" debian/control &&
            [ -s "debian/$package.install" ] || { echo "no $package"; return 1; }
    done
}

scripts_of_the_packages_are_shell()
{
    for script in debian/*.postrm tools/deb.sh tools/config_example.sh \
        tools/manpages.sh tests/deb/*.sh; do
        sh -n "$script" || return 1
    done
}

try all_files_have_one_version one_version_everywhere
try the_packaged_configuration_is_accepted example_is_accepted
try the_packaged_configuration_has_every_option_as_a_comment example_has_every_option
try its_defaults_are_accepted_when_they_are_set defaults_are_accepted
try check_config_finds_mistakes_and_touches_nothing mistakes_are_found_before_a_start
try manual_pages_have_every_option_and_key pages_have_every_option
try manual_pages_are_formatted_without_a_warning pages_are_formatted_without_a_warning
try completions_are_scripts_of_their_shells completions_are_scripts_of_their_shells
try systemd_units_are_valid units_are_valid
try every_installed_program_and_page_is_in_a_package files_of_make_install_are_packaged
try scripts_of_the_packages_are_valid_shell scripts_of_the_packages_are_shell
echo "1..$n"
