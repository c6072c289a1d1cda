#!/bin/sh
# check_style.sh - fails when a file breaks a rule of the house.
#
#   check_style.sh [ROOT]
#
# The rules, each said with file:line when broken:
#
#   list      a policy, trace format, engine or command has its file and its
#             line in the .def list, both of one name
#   length    a function has at most 80 lines
#   banned    functions that only some folders may call, see allowed() below
#   opening   the first line of a C file is "/ * name - what it is"
#   readme    each folder of src/ has a README.md
#   unique    no two files of src/ share a name, plug-ins apart
#   words     no TODO, FIXME or XXX
#   riddle    texts name the thing they mean: the words in riddles() below are
#             refused in comments, strings, names and pages
#   format    clang-format would change nothing. Its versions disagree with
#             one another, so this is looked at only with the version below.

format_version=14
max_function=80

cd "${1:-$(dirname "$0")/..}" || exit 2
bad=0
say()
{
    echo "$1"
    bad=1
}

# --- list ------------------------------------------------------------------

# in_list DEF MACRO ID: the .def has MACRO(ID).
in_list()
{
    grep -q "^$2($3[,)]" "$1" 2>/dev/null
}

# plugins FOLDER MACRO DEF KIND: files that define firn_KIND_<id>, against the
# list. Files of the folder that define none are shared helpers.
plugins()
{
    folder=$1 macro=$2 def=$1/$3 kind=$4
    [ -d "$folder" ] || return
    grep -n "^const struct firn_${kind}_def firn_${kind}_[a-z0-9_]* = " \
        "$folder"/*.c /dev/null 2>/dev/null | while IFS=: read -r file line rest; do
        id=$(echo "$rest" | sed "s/.*firn_${kind}_\([a-z0-9_]*\) = .*/\1/")
        in_list "$def" "$macro" "$id" ||
            echo "$file:$line: list: $def has no line $macro($id)"
        [ "$file" = "$folder/$id.c" ] ||
            echo "$file:$line: list: firn_${kind}_$id belongs in $folder/$id.c"
    done
    listed "$def" "$macro" | while read -r line id; do
        grep -q "^const struct firn_${kind}_def firn_${kind}_$id = " \
            "$folder/$id.c" 2>/dev/null ||
            echo "$def:$line: list: $folder/$id.c does not define" \
                "firn_${kind}_$id"
    done
}

# listed DEF MACRO: "line id" for each entry.
listed()
{
    [ -f "$1" ] && sed -n "/^$2(/{=;s/^$2(\([^),]*\).*/\1/p;}" "$1" |
        paste -d ' ' - -
}

commands()
{
    def=src/cli/commands.def
    for file in src/*/cmd_*.c; do
        [ -f "$file" ] || continue
        id=${file#src/*/cmd_}
        in_list $def COMMAND "${id%.c}" ||
            echo "$file:1: list: $def has no line COMMAND(${id%.c})"
    done
    listed $def COMMAND | while read -r line id; do
        set -- src/*/cmd_"$id".c
        [ -f "$1" ] ||
            echo "$def:$line: list: there is no src/cli/cmd_$id.c"
    done
}

found=$(plugins src/policy POLICY policies.def policy
    plugins src/trace TRACE traces.def trace
    plugins src/engine ENGINE engines.def engine
    commands)
[ -z "$found" ] || say "$found"

# --- length, banned, opening, words ----------------------------------------

cfiles=$(find src include/firn tests bench -name '*.[ch]' 2>/dev/null | sort)
[ -n "$cfiles" ] || say "src:1: no C files found"

# File names have no blanks here, so the list may be split into words.
found=$(awk -v max_function=$max_function '
function say(line, what)
{
    printf "%s:%d: %s\n", file, line, what
}

# The line without comments, strings and character constants. A comment may
# go on: `in_comment` remembers.
function code(s,    out, i, c, two)
{
    out = ""
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        two = substr(s, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "\047") {
            for (i++; i <= length(s) && substr(s, i, 1) != c; i++)
                if (substr(s, i, 1) == "\\")
                    i++
            out = out c c
        } else {
            out = out c
        }
    }
    return out
}

# Each line of the table: functions, then the folders and files of src/ that
# may call them.
function ban(names, where,    n, part, i)
{
    n = split(names, part, " ")
    for (i = 1; i <= n; i++)
        allowed[part[i]] = " " where " "
}

function may(name)
{
    return index(allowed[name], " " folder " ") ||
           index(allowed[name], " " folder "/" base " ")
}

function calls(s,    name, before, rest)
{
    # A name before "(", that is not a member nor part of a longer name.
    rest = s
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
        name = substr(rest, RSTART, RLENGTH - 1)
        sub(/[ \t]*$/, "", name)
        before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : ""
        if ((name in allowed) && before !~ /[.>0-9]/ && !may(name) &&
            !(name == "clock_gettime" && s ~ /CPUTIME_ID/))
            say(FNR, "banned: " name "() in src/" folder)
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (s ~ /(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)/ &&
        folder !~ /^(base|cli|daemon|launch|repro)$/)
        say(FNR, "banned: stdout and stderr in src/" folder \
            ": a library does not print")
}

BEGIN {
    ban("malloc calloc realloc free strdup strndup",
        "base train blas")
    ban("printf vprintf puts putchar perror exit", "cli daemon/main.c launch/main.c")
    ban("time clock_gettime gettimeofday localtime gmtime",
        "engine daemon train cli base/clock.c")
    ban("rand srand rand_r random srandom drand48 lrand48", "")
    ban("strcpy strcat sprintf vsprintf gets atoi atol atof strtok", "")
    ban("system popen", "")
    # These differ in the last bit from one C library to the next.
    ban("log log2 log10 log1p exp exp2 expm1 pow sin cos tan", "base/fmath.c")
}

FNR == 1 {
    file = FILENAME
    n = split(file, path, "/")
    base = path[n]
    folder = path[1] == "src" ? path[2] : ""
    in_comment = 0
    start = 0
    if (index($0, "/* " base " - ") != 1)
        say(1, "opening: the first line is not \"/* " base " - ...\"")
}
{
    if (folder != "") { # a line without comment and text is code as it is
        if (in_comment || $0 ~ /["\047\/]/)
            calls(code($0))
        else if ($0 ~ /[(]|std/)
            calls($0)
    }
    if ($0 ~ /(^|[^A-Za-z0-9_])(TODO|FIXME|XXX)([^A-Za-z0-9_]|$)/)
        say(FNR, "words: finish it or leave it out")
}
/^\{/ { start = FNR }
/^\}/ && start {
    if (FNR - start - 1 > max_function)
        say(start, "length: a function of " FNR - start - 1 \
            " lines, at most " max_function)
    start = 0
}' $cfiles)
[ -z "$found" ] || say "$found"

# --- riddle ----------------------------------------------------------------

# Every text that a reader of firn may meet: programs, scripts and pages, but
# not the data of tests. File names have no blanks here.
texts=$(find README.md HACKING.md Makefile check quickstart src include tests \
    tools bench examples python papers docs -type f \
    ! -path '*/corpus/*' ! -path '*/fixtures/*' ! -path '*/golden/*.tsv' \
    ! -path 'docs/measurements/*' ! -path 'docs/results/*' \
    \( -name '*.[ch]' -o -name '*.md' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.js' -o -name '*.css' -o -name '*.html' \
    -o -name '*.def' -o -name '*.yaml' -o -name '*.1' -o -name '*.inc' \
    -o ! -name '*.*' \) 2>/dev/null | sort)

# The words are cut in two here, or this file would break its own rule. Names
# of tests and functions are read as words. A phrase that goes on in the next
# line is found too: `tail` has the last words of the line before.
found=$(awk '
function riddles(text)
{
    gsub(/[^a-z\047]+/, " ", text)
    text = " " text " "
    if (match(text, " (no" "body|some" "body|any" "body|every" "body|who" "ever)(\047s)? ") ||
        match(text, " so" " ma" "ny ") || match(text, " n" "o words? ") ||
        match(text, " what" " is ((the|a|an|another|this|that) )?[a-z]+\047s "))
        return substr(text, RSTART + 1, RLENGTH - 2)
    return ""
}

# The first (or, if `is_end`, the last) four words of a line.
function words(line, is_end,    n, word, i, out) {
    n = split(line, word, /[^a-z\047]+/)
    out = ""
    for (i = is_end && n > 4 ? n - 3 : 1; i <= n && (is_end || i <= 4); i++)
        out = out " " word[i]
    return out
}

# Most lines have none of the parts of a riddle, and are not looked at further.
FNR == 1 { before = "" }
{
    line = tolower($0)
    hit = ""
    if (line ~ /body|who|many|word|what/)
        hit = riddles(line)
    if (hit == "" && before != "" &&
        (before ~ /what/ || line ~ /^[^a-z\047]*(many|word)/)) {
        tail = words(before, 1)
        head = words(line, 0)
        if (riddles(tail) == "" && riddles(head) == "")
            hit = riddles(tail head)
    }
    if (hit != "")
        printf "%s:%d: riddle: \"%s\" hides the thing that is meant: name it\n",
            FILENAME, FNR, hit
    before = line
}' $texts)
[ -z "$found" ] || say "$found"

# --- readme, unique --------------------------------------------------------

for folder in src/*/; do
    [ -f "${folder}README.md" ] ||
        say "${folder}README.md:1: readme: this folder has none"
done

# The names of two plug-ins may be the same: a policy, a trace format and an
# imitated simulator. Every program has its main.c.
is_plugin()
{
    grep -q -e '^const struct firn_[a-z]*_def firn_[a-z0-9_]* = ' \
        -e '^const struct firn_world_def compat_[a-z0-9_]* = ' \
        -e '^int main(int argc, char \*\*argv)$' "$1"
}
for name in $(find src -name '*.[ch]' | sed 's|.*/||' | sort | uniq -d); do
    plain=0 where=
    for file in src/*/"$name"; do
        is_plugin "$file" || plain=$((plain + 1))
        where=$file
    done
    [ $plain -eq 0 ] || say "$where:1: unique: another file of src/ is called $name"
done

# --- format ----------------------------------------------------------------

version=$(clang-format --version 2>/dev/null |
    sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" = $format_version ]; then
    found=$(clang-format --dry-run --Werror $cfiles 2>&1 |
        sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: error.*/\1: format: run make format/p' |
        sort -t : -k 1,1 -u)
    [ -z "$found" ] || say "$found"
else
    echo "format not looked at: clang-format is ${version:-not there}," \
        "not $format_version"
fi
exit $bad
