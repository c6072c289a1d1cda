#!/bin/sh
# check_headers.sh - fails when a header does not compile alone.
#
#   check_headers.sh [ROOT]
#
# Public headers are compiled with include/ only, as a user of the library
# would, in C and in C++17, by gcc and g++ and, if installed, clang and clang++;
# the others with src/ too, by one of these: the build and clang-tidy read them
# with both. A header that the file of the same name includes before anything
# else is compiled alone by the build: here only its guard is looked at. Prints
# file:line and the messages of the compiler; exits 1 if a header fails.

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

# together COMPILER...: compiles all public headers in one file.
together()
{
    for header in include/firn/*.h; do
        printf '#include <%s>\n#include <%s>\n' "${header#include/}" \
            "${header#include/}"
    done | "$@" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror \
        -Iinclude - 2>/dev/null
}

# Each header alone by the first compiler. To the others all of them are given at
# once, and one by one only if that fails, to name the header.
one=${compilers# }
one=${one%% *}
more=
for cc in ${compilers# $one}; do
    together $cc -std=c17 -D_POSIX_C_SOURCE=200809L -Wshadow \
        -Wmissing-prototypes -x c || more="$more $cc"
done
is_cxx_good=1
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    together $cxx -std=c++17 -Wno-sign-conversion -x c++ || is_cxx_good=
done
for header in include/firn/*.h; do
    [ -f "$header" ] || continue
    alone "$one$more" "$header" "${header#include/}" -Iinclude
    [ -n "$is_cxx_good" ] || in_cxx "$header" "${header#include/}"
done
# The headers that the build does not compile alone, one in a line; of the others
# those without a guard are named in file $1.
left_over()
{
    for header in src/*/*.h tests/lib/*.h; do
        [ -f "$header" ] && echo "$header ${header%.h}.c"
    done | awk -v unguarded="$1" '
        # Is the first line of the file that begins with # of that kind?
        function first(file, kind,    line, found) {
            found = 0
            while ((getline line <file) > 0)
                if (line ~ /^#/) {
                    found = line ~ kind
                    break
                }
            close(file)
            return found
        }
        {
            n = split($1, part, "/")
            if (!first($2, "^#include \"([a-z0-9]+/)?" part[n] "\"")) {
                print $1
                next
            }
            guard = 0
            while ((getline line <$1) > 0)
                if (line ~ /^#/) {
                    split(line, word, " ")
                    if (++guard == 1)
                        name = word[1] == "#ifndef" ? word[2] : ""
                    else {
                        if (word[1] != "#define" || word[2] != name)
                            print $1 >unguarded
                        break
                    }
                }
            close($1)
        }'
}

unguarded=$(mktemp "${TMPDIR:-/tmp}/firn-headers.XXXXXX") || exit 2
trap 'rm -f "$unguarded"' EXIT
for header in $(left_over "$unguarded"); do
    case $header in
    src/*) alone "$one" "$header" "${header#src/}" -Iinclude -Isrc ;;
    *) alone "$one" "$header" "$header" -I. -Itests -Itests/lib -Iinclude -Isrc ;;
    esac
done
while read -r header; do
    echo "$header:1: its first lines are no guard (#ifndef, #define)"
    bad=1
done <"$unguarded"
exit $bad
