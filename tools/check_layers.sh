#!/bin/sh
# check_layers.sh - fails when an include points up or sideways.
#
#   check_layers.sh [ROOT]
#
# Reads the table in tools/layers.txt and every include line of src/ and
# include/firn/. Includes are written "folder/name.h" or <firn/name.h>, so a
# line names its layer. Says file:line and the rule; exits 1 on any.

cd "${1:-$(dirname "$0")/..}" || exit 2
find src include/firn -name '*.[ch]' | sort | {
    set -- tools/layers.txt
    while IFS= read -r file; do
        set -- "$@" "$file"
    done
    awk '
    function say(what)
    {
        printf "%s:%d: %s\n", FILENAME, FNR, what
        bad = 1
    }

    # May a file of folder `from` include something of folder `to`?
    function judge(from, to, what)
    {
        if (from == to)
            return
        if ((from, to) in never)
            say(from " never includes " to " (" what ")")
        else if (row[to] == row[from])
            say("includes sideways: " from " and " to " are both in row " \
                row[to] " (" what ")")
        else if (row[to] > row[from])
            say("includes upwards: " from " is row " row[from] ", " to \
                " is row " row[to] " (" what ")")
    }

    FILENAME ~ /layers.txt$/ {
        if ($1 == "row")
            row[$2] = $3
        if ($1 == "public")
            owner[$2] = $3
        if ($1 == "never")
            never[$2, $3] = 1
        next
    }

    FNR == 1 {
        n = split(FILENAME, path, "/")
        is_public = path[1] == "include"
        from = is_public ? owner[path[n]] : path[2]
        is_all = FILENAME == "include/firn/firn.h"
        if (!is_all && !(from in row))
            say("has no row in tools/layers.txt")
        if (!is_public && n != 3)
            say("is not in a folder of src/")
    }

    /^[ \t]*#[ \t]*include/ && !is_all && (from in row) {
        what = $0
        sub(/^[ \t]*#[ \t]*include[ \t]*/, "", what)
        quoted = what ~ /^"/
        name = substr(what, 2)
        sub(/[">].*/, "", name)
        n = split(name, part, "/")
        if (part[1] == "firn" && n == 2) {
            if (part[2] == "firn.h")
                say("firn.h is for users of the library, not for src/")
            else if (!(part[2] in owner))
                say("<firn/" part[2] "> has no row in tools/layers.txt")
            else
                judge(from, owner[part[2]], what)
        } else if (n == 2 && part[1] in row) {
            if (is_public)
                say("a public header includes a private one (" what ")")
            else
                judge(from, part[1], what)
        } else if (quoted) {
            say("write includes from the root of src/, as \"core/plan.h\" (" \
                what ")")
        }
    }

    END { exit bad }' "$@"
}
