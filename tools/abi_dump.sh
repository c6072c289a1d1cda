#!/bin/sh
# abi_dump.sh - prints what a program compiled against libfirn relies on.
#
#   abi_dump.sh BUILD
#
# The exported names of libfirn.so and libfirn_train.so in BUILD, then each
# public struct with its size and the offset and size of each member, then each
# public enum constant with its value. Structs and enums are read from the
# preprocessed headers, and their numbers come from a program that the compiler
# makes of them.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
cc=${CC:-gcc}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-abi.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

for lib in libfirn libfirn_train; do
    echo "# $lib.so exports"
    nm -D --defined-only "$build/$lib.so" | awk '{ print $3 }' | LC_ALL=C sort
done

# One declaration a line: what is between two of ; { }.
printf '#include <firn/firn.h>\n' | $cc -E -P -Iinclude - |
    tr '\n' ' ' | sed 's/[;{}]/&\n/g' >"$tmp/declarations"

awk '
    BEGIN {
        print "#include <firn/firn.h>\n#include <stddef.h>\n#include <stdio.h>"
        print "int main(void)\n{"
    }
    { gsub(/__attribute__ *\(\([^)]*\)*\)\)/, "") }
    /struct firn_[a-z0-9_]+ *\{ *$/ {
        match($0, /struct firn_[a-z0-9_]+/)
        of = substr($0, RSTART, RLENGTH)
        printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", of, of
        next
    }
    /enum *(firn_[a-z0-9_]+)? *\{ *$/ { in_enum = 1; next }
    in_enum {
        sub(/\}.*/, "")
        n = split($0, part, ",")
        for (i = 1; i <= n; i++)
            if (match(part[i], /FIRN_[A-Z0-9_a-z]+/)) {
                name = substr(part[i], RSTART, RLENGTH)
                constants = constants "printf(\"" name " %d\\n\", (int)" \
                    name ");\n"
            }
        in_enum = 0
        next
    }
    of != "" && /\}/ { of = ""; next }
    of != "" && /;/ {
        sub(/;.*/, "")
        if (match($0, /\(\* *[a-z0-9_]+ *\)/)) { # a function
            name = substr($0, RSTART, RLENGTH)
            gsub(/[()* ]/, "", name)
            names[n = 1] = name
        } else {
            gsub(/\[[^]]*\]/, "")
            n = split($0, names, ",")
            for (i = 1; i <= n; i++) {
                sub(/ *$/, "", names[i])
                sub(/.*[ *]/, "", names[i])
            }
        }
        for (i = 1; i <= n; i++)
            printf "printf(\"  %s %%zu %%zu\\n\", offsetof(%s, %s), " \
                "sizeof(((%s *)0)->%s));\n", names[i], of, names[i], of, \
                names[i]
    }
    END { print constants "return 0;\n}" }' "$tmp/declarations" >"$tmp/dump.c"
echo "# structs: size; members: offset, size; enum constants"
$cc -std=c17 -Iinclude -o "$tmp/dump" "$tmp/dump.c"
"$tmp/dump"
