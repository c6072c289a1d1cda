#!/bin/sh
# 905-manual.sh - the manual page says what the help pages say.
#
# The section COMMANDS of docs/firn.1 is made from --help by tools/manual.sh
# (`make manual`). TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
FIRN=${FIRN:-build/firn}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-manual.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

"$FIRN" help | grep -q '^  submit ' || {
    echo "1..0 # SKIP firn was built without the commands for firnd"
    exit 0
}
n=0

# report STATUS NAME: one line of TAP, and $tmp/why when it failed.
report()
{
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        sed 's/^/# /' "$tmp/why"
    fi
}

"$FIRN" help | sed -n 's/^  *\([a-z]*\)  .*/\1/p' >"$tmp/commands"
: >"$tmp/why"
while read -r command; do
    grep -q "^\.Ss firn $command" docs/firn.1 ||
        echo "docs/firn.1 has no section for 'firn $command': run make manual"
done <"$tmp/commands" >"$tmp/why"
[ -s "$tmp/commands" ] && [ ! -s "$tmp/why" ]
report $? every_command_has_a_section_in_the_manual

tools/manual.sh "$FIRN" >"$tmp/made" &&
    diff docs/firn.1 "$tmp/made" >"$tmp/diff"
rc=$?
{
    echo "docs/firn.1 differs from the help pages: run make manual"
    cat "$tmp/diff"
} >"$tmp/why"
report $rc the_manual_has_the_text_of_the_help_pages

# The manual is not empty of what the help pages have.
"$FIRN" sim --help | grep -o -e ' --[a-z][a-z-]*' | tr -d ' ' | grep -v -x -e --help | sort -u |
    while read -r option; do
        grep -q -e "^\.It .*Fl -${option#--}\( \|\$\)" docs/firn.1 ||
            echo "docs/firn.1 has no option $option of 'firn sim'"
    done >"$tmp/why"
[ ! -s "$tmp/why" ]
report $? the_manual_lists_the_options_of_firn_sim

# firnd has its page in docs/operate.md.
FIRND=${FIRND:-${FIRN}d}
"$FIRND" --help | grep -o -e '^  --[a-z-]*' | tr -d ' ' |
    grep -v -x -e --help | while read -r option; do
        grep -q -e "^| \`$option[\` ]" docs/operate.md ||
            echo "docs/operate.md has no row for the option $option of firnd"
    done >"$tmp/why"
"$FIRND" --help | grep -q -e '--state' && [ ! -s "$tmp/why" ]
report $? the_operators_page_has_a_row_for_every_option_of_firnd
echo "1..$n"
