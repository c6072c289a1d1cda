#!/bin/sh
# 905-manual.sh - the manual page and the help pages name the same options.
#
# Each command's section of docs/firn.1 must have exactly the long and short
# options that the command's own --help lists. TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
FIRN=${FIRN:-build/firn}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-manual.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
n=0

# in_help COMMAND...: options at the beginning of lines of the help page.
in_help()
{
    "$FIRN" "$@" --help | sed -n 's/^ *\(-.*\)/\1/p' |
        sed 's/  .*//' | tr ', ' '\n\n' | grep '^-' | sed 's/=.*//' |
        grep -v -x -e -h -e --help | sort -u
}

# in_manual COMMAND: options of its section.
in_manual()
{
    awk -v want="firn $1" '
        /^\.Ss / { on = substr($0, 5) == want }
        on && /^\.It Fl/ {
            for (i = 2; i < NF; i++)
                if ($i == "Fl")
                    print "-" $(i + 1)
        }' docs/firn.1 | sort -u
}

# report STATUS NAME: one line of TAP.
report()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        sed 's/^/# /' "$tmp/diff"
    fi
}

# What asks the daemon is not in every build.
live=
"$FIRN" help | grep -q '^  submit ' &&
    live="submit ls show logs cancel hold release why eta plan top nodes events
        whatif drain undrain"

for command in sim repro "trace stat" "trace convert" "trace gen" \
    "trace formats" policies cluster memory "profile list" "profile show" "profile eval" \
    "profile fit" "train diff" "train show" help version \
    completion $live ${live:+"trace export"}; do
    in_help $command >"$tmp/help"
    in_manual "$command" >"$tmp/manual"
    diff "$tmp/help" "$tmp/manual" >"$tmp/diff"
    report $? "the_manual_has_the_options_of_$(echo "$command" | tr ' ' '_')"
done
"$FIRN" help | sed -n 's/^  *\([a-z]*\)  .*/\1/p' >"$tmp/commands"
: >"$tmp/diff"
while read -r command; do
    grep -q "^\.Ss firn $command" docs/firn.1 || echo "$command" >>"$tmp/diff"
done <"$tmp/commands"
[ -s "$tmp/commands" ] && [ ! -s "$tmp/diff" ]
report $? every_command_has_its_section
echo "1..$n"
