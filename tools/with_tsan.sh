#!/bin/sh
# with_tsan.sh - runs a command in which programs built for TSan can start.
#
#   with_tsan.sh COMMAND...
#
# TSan wants its memory at fixed places, and a kernel that places programs
# very randomly may have put something there. So a small program is tried
# first: as it is, then without randomness (setarch -R). When neither starts,
# this says so and counts one test as skipped.

dir=$(mktemp -d "${TMPDIR:-/tmp}/firn-tsan.XXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
echo 'int main(void) { return 0; }' >"$dir/try.c"
${CC:-gcc} -fsanitize=thread -o "$dir/try" "$dir/try.c" 2>"$dir/why"

# Placing is random: one good start proves little.
starts()
{
    for i in 1 2 3 4 5 6 7 8; do
        "$@" "$dir/try" >"$dir/why" 2>&1 || return 1
    done
}

if [ -x "$dir/try" ] && starts; then
    "$@"
elif [ -x "$dir/try" ] && starts setarch "$(uname -m)" -R; then
    setarch "$(uname -m)" -R "$@"
else
    echo "  skip TSan: programs built for it do not start here:" \
        "$(tail -n 1 "$dir/why")"
    [ -n "$TALLY" ] && echo "0 0 1" >>"$TALLY"
    echo "0 passed, 0 failed, 1 skipped"
fi
