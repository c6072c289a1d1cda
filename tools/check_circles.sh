#!/bin/sh
# check_circles.sh - no more than three files of a folder call each other in a
# circle.
#
# usage: tools/check_circles.sh [-l] [OBJECTS [SOURCES]]
#
# OBJECTS is the folder of object files (default build/obj/src), SOURCES that of
# the files they were made from (default src): objects of files that are gone
# are left out. For each of the folders daemon and engine, `nm` tells which file
# defines a symbol and which files use it: file A depends on file B when A uses
# a symbol that B defines. A set of files in which each reaches each other (a
# strongly connected component) is a circle: none of them can be read, tested or
# replaced without the rest. One of more than three files fails the check, and
# its files are printed.
#
# -l prints all circles, also those of two and three files. Without any object
# the check is skipped (status 77): `make` first.

most=3
list=0
if [ "${1:-}" = -l ]; then
    list=1
    shift
fi
objects=${1:-${BUILD:-build}/obj/src}
sources=${2:-src}
status=77
tmp=$(mktemp "${TMPDIR:-/tmp}/firn-circles.XXXXXX") || exit 1
trap 'rm -f "$tmp"' EXIT
trap 'exit 130' INT TERM

# circles FOLDER: a line for each circle, the files with blanks between.
circles()
{
    {
        ls "$sources/$1" | sed -n 's/^\(.*\)\.c$/file \1/p'
        nm -A "$objects/$1"/*.o | awk '
            {
                file = $1
                sub(/:.*/, "", file)
                sub(/.*\//, "", file)
                sub(/\.o$/, "", file)
            }
            NF == 3 && $2 ~ /^[TDBRCVW]$/ { print "def", $3, file }
            $(NF - 1) == "U" { print "use", $NF, file }'
    } | awk '
        $1 == "file" { is_there[$2] = 1; next }
        !is_there[$3] { next }
        $1 == "def" { home[$2] = $3 }
        $1 == "use" { nuses++; symbol[nuses] = $2; user[nuses] = $3 }
        END {
            for (i = 1; i <= nuses; i++) {
                from = user[i]; to = home[symbol[i]]
                if (to == "" || to == from || seen[from, to]++)
                    continue
                out[from] = out[from] " " to
                back[to] = back[to] " " from
                files[from] = files[to] = 1
            }
            # Kosaraju: by the order in which a walk leaves files, then the
            # walk against the arrows.
            for (f in files)
                if (!left[f])
                    leave(f)
            for (i = norder; i > 0; i--)
                if (!taken[order[i]]) {
                    members = ""; size = 0
                    take(order[i])
                    if (size > 1)
                        print size members
                }
        }
        function leave(f, next_, n, k) {
            left[f] = 1
            n = split(out[f], next_, " ")
            for (k = 1; k <= n; k++)
                if (!left[next_[k]])
                    leave(next_[k])
            order[++norder] = f
        }
        function take(f, next_, n, k) {
            taken[f] = 1
            members = members " " f
            size++
            n = split(back[f], next_, " ")
            for (k = 1; k <= n; k++)
                if (!taken[next_[k]])
                    take(next_[k])
        }' | while read -r size members; do
            # shellcheck disable=SC2086
            echo "$size $(printf '%s\n' $members | sort | tr '\n' ' ')"
        done | sort -rn
}

for folder in daemon engine; do
    ls "$objects/$folder"/*.o >/dev/null 2>&1 || continue
    [ "$status" = 77 ] && status=0
    circles "$folder" >"$tmp"
    while read -r size members; do
        [ "$list" = 1 ] && echo "src/$folder: $size files: $members"
        [ "$size" -gt "$most" ] || continue
        status=1
        [ "$list" = 1 ] || echo "src/$folder: $size files call each other in a" \
            "circle, at most $most may: $members"
    done <"$tmp"
done
[ "$status" = 77 ] && echo "no objects in $objects: make first"
exit $status
