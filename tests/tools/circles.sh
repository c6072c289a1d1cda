#!/bin/sh
# circles.sh - check_circles.sh finds a planted circle of files, and nothing
# where there is none. TAP on stdout.

check=$(cd "$(dirname "$0")/../../tools" && pwd)/check_circles.sh
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-circle.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
n=0

# file NAME CALLS...: a C file with a function of its name that calls others.
file()
{
    name=$1
    shift
    {
        for other in "$@"; do
            echo "int $other(void);"
        done
        printf 'int %s(void);\nint %s(void)\n{\n    return 1' "$name" "$name"
        for other in "$@"; do
            printf ' + %s()' "$other"
        done
        printf ';\n}\n'
    } >"$tmp/src/daemon/$name.c"
    "${CC:-cc}" -c -o "$tmp/obj/daemon/$name.o" "$tmp/src/daemon/$name.c"
}

fresh()
{
    rm -rf "$tmp/src" "$tmp/obj"
    mkdir -p "$tmp/src/daemon" "$tmp/obj/daemon"
}

# expect STATUS TEXT NAME: the check's status, and a text that it prints; "":
# none.
expect()
{
    n=$((n + 1))
    sh "$check" "$tmp/obj" "$tmp/src" >"$tmp/said" 2>&1
    rc=$?
    [ -s "$tmp/said" ] || echo silent >"$tmp/said"
    if [ $rc -eq "$1" ] && grep -q -- "${2:-^silent\$}" "$tmp/said"; then
        echo "ok $n - $3"
    else
        echo "not ok $n - $3"
        sed "s/^/# status $rc: /" "$tmp/said"
    fi
}

fresh
expect 77 'make first' without_objects_the_check_is_skipped
file a b
file b c
file c d
file d
expect 0 '' a_chain_of_files_passes
file c a
expect 0 '' a_circle_of_three_files_passes
file c d
file d a
expect 1 '4 files call each other in a circle.*a b c d' \
    a_circle_of_four_files_is_refused_and_named
file e a
expect 1 ': a b c d *$' a_file_that_only_calls_into_a_circle_is_no_part_of_it
rm "$tmp/src/daemon/d.c"
expect 0 '' an_object_whose_source_is_gone_is_left_out
echo "1..$n"
