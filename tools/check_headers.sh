#!/bin/sh
# check_headers.sh - fails when a header does not compile alone.
#
#   check_headers.sh [ROOT]
#
# Public headers are compiled with include/ only, as a user of the library
# would, in C and in C++17, by gcc and g++ and, if installed, clang and clang++;
# the others with src/ too, by one of these: the build and clang-tidy read them
# with both. Prints file:line and the messages of the compiler; exits 1 if a
# header fails.

cd "${1:-$(dirname "$0")/..}" || exit 2
warn="-Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wconversion"
flags="-std=c17 -D_POSIX_C_SOURCE=200809L -fsyntax-only $warn -Werror"
bad=0

compilers=
for cc in gcc clang; do
    command -v $cc >/dev/null && compilers="$compilers $cc"
done
[ -n "$compilers" ] || { echo "no C compiler found"; exit 2; }

# alone COMPILERS HEADER AS FLAGS...: compiles a file with that include line.
alone()
{
    with=$1 header=$2 as=$3
    shift 3
    for cc in $with; do
        # The header is included twice, which tests its guard.
        printf '#include <%s>\n#include <%s>\nextern int unused_;\n' \
            "$as" "$as" | $cc $flags "$@" -x c - || {
            echo "$header:1: does not compile alone with $cc"
            bad=1
        }
    done
}

# in_cxx HEADER AS: the same for C++, with the warnings that its users have.
in_cxx()
{
    for cxx in g++ clang++; do
        command -v $cxx >/dev/null || continue
        printf '#include <%s>\n#include <%s>\n' "$2" "$2" |
            $cxx -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic \
                -Wconversion -Wno-sign-conversion -Werror -Iinclude -x c++ - || {
            echo "$1:1: does not compile alone with $cxx"
            bad=1
        }
    done
}

for header in include/firn/*.h; do
    [ -f "$header" ] || continue
    alone "$compilers" "$header" "${header#include/}" -Iinclude
    in_cxx "$header" "${header#include/}"
done
one=${compilers# }
one=${one%% *}
for header in src/*/*.h; do
    [ -f "$header" ] && alone "$one" "$header" "${header#src/}" -Iinclude -Isrc
done
for header in tests/lib/*.h; do
    [ -f "$header" ] && alone "$one" "$header" "$header" \
        -I. -Itests -Itests/lib -Iinclude -Isrc
done
exit $bad
