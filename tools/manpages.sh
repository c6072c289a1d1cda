#!/bin/sh
# manpages.sh - makes the manual pages of firnd, firn-launch and their files.
#
#   manpages.sh FIRND FIRN_LAUNCH OUT
#
# The pages are docs/man/*.in with one line replaced each: @OPTIONS@ by the
# options of a program's help page, @KEYS@ by the same options as keys of
# firn.yaml, @JOBS@ by docs/jobs.md, and @VERSION@ in any line by the version.
# Nothing made is kept in the tree: a page cannot differ from its program.
set -eu
firnd=$1 launch=$2 out=$3
version=$(sed -n 's/^.define FIRN_VERSION  *"\(.*\)"/\1/p' include/firn/version.h)

# options PREFIX: a help page as a list of mdoc. An entry begins with two blanks
# and two dashes; its help is behind the option or in the lines below it.
options()
{
    awk -v as="$1" '
    function text(s) { gsub(/\\/, "\\e", s); sub(/^[.\047]/, "\\\\\\&&", s); return s }
    function flush_one()
    {
        if (item == "") return
        print item
        help = toupper(substr(help, 1, 1)) substr(help, 2)
        print text(help) (help ~ /[.]$/ ? "" : ".")
        item = help = ""
    }
    function entry(names,   n, part, i, w, nw, word)
    {
        item = ".It"
        n = split(names, part, /, /)
        for (i = 1; i <= n; i++) {
            nw = split(part[i], word, " ")
            sub(/^--/, "", word[1])
            if (as == "key" && word[1] == "set") {
                item = item " Ic settings : Bq Ar NAME=VALUE , ..."
                continue
            }
            if (i > 1) item = item (as == "key" ? " , " : " , ")
            if (as == "key")
                item = item " Ic " word[1] ":" (nw > 1 ? " Ar " word[2] : " Ar yes")
            else
                item = item " Fl -" word[1] (nw > 1 ? " Ar " word[2] : "")
        }
    }
    /^  --/ {
        flush_one()
        line = substr($0, 3)
        help = ""
        if (match(line, /   */)) {
            help = substr(line, RSTART + RLENGTH)
            line = substr(line, 1, RSTART - 1)
        }
        if (as == "key" && line ~ /^--(config|check-config|help|version)/) { item = ""; skip = 1; next }
        skip = 0
        entry(line)
        next
    }
    /^ +[^ ]/ && item != "" { sub(/^ +/, ""); help = help (help == "" ? "" : " ") $0; next }
    { flush_one() }
    END { flush_one() }'
}

# jobs: docs/jobs.md as mdoc; the part of Markdown that the page uses.
jobs()
{
    awk '
    function plain(s)
    {
        gsub(/\\/, "\\e", s)
        while (match(s, /\[[^]]*\]\([^)]*\)/)) {
            link = substr(s, RSTART + 1, RLENGTH - 1)
            sub(/\]\(.*/, "", link)
            s = substr(s, 1, RSTART - 1) link substr(s, RSTART + RLENGTH)
        }
        gsub(/`|\*\*/, "", s)
        sub(/^[.\047]/, "\\\\\\&&", s)
        return s
    }
    function close_table() { if (in_table) print ".El"; in_table = 0 }
    function trim(s) { gsub(/^ +| +$/, "", s); return s }
    NR == 1 { next }
    /^```/ {
        if (in_code) print ".Ed"
        else { close_table(); print ".Bd -literal -offset indent" }
        in_code = !in_code; gap = 0; next
    }
    in_code { s = $0; gsub(/\\/, "\\e", s); sub(/^[.\047]/, "\\\\\\&&", s); print s; next }
    /^## / { close_table(); print ".Ss " plain(substr($0, 4)); gap = 0; begun = 0; next }
    /^<!--/ || /^\|( *---)/ { next }
    /^\|/ && split($0, cell, "|") > 5 { next } # too wide for a list
    /^\|/ {
        n = split(substr($0, 2), cell, / \| /)
        sub(/ *\|$/, "", cell[n])
        if (!in_table) { print ".Bl -tag -width Ds"; in_table = begun = 1; head = cell[n]; next }
        print ".It " plain(trim(cell[1]))
        print plain(trim(cell[2])) "."
        if (n > 2) print "(" plain(trim(head)) ": " plain(trim(cell[3])) ".)"
        next
    }
    /^$/ { close_table(); gap = 1; next }
    /^    / { sub(/^    /, ""); print ".Dl " plain($0); gap = 0; next }
    { if (gap && begun) print ".Pp"; gap = 0; begun = 1; print plain($0) }
    END { close_table() }' docs/jobs.md
}

mkdir -p "$out"
for page in docs/man/*.in; do
    name=${page##*/}
    while IFS= read -r line; do
        case $line in
        @OPTIONS@ | @KEYS@ | @JOBS@)
            case $line:$name in
            @OPTIONS@:firn-launch*) "$launch" --help | options option ;;
            @OPTIONS@:*) "$firnd" --help | options option ;;
            @KEYS@:*) "$firnd" --help | options key ;;
            *) jobs ;;
            esac
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <"$page" | sed "s/@VERSION@/$version/" >"$out/${name%.in}"
done
