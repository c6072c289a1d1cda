#!/bin/sh
# manual.sh - prints docs/firn.1 with the COMMANDS section made from --help.
#
#   manual.sh FIRN [MANUAL]
#
# FIRN is the program, MANUAL the page to update (docs/firn.1). The text before
# and after the section COMMANDS is kept. The section has, for each command,
# what its help page has: the description, the options, the remarks. Without
# libcurl and jansson FIRN has no commands for firnd: exits 2.

firn=$1 manual=${2:-docs/firn.1}
"$firn" help | grep -q '^  submit ' || {
    echo "manual.sh: $firn was built without the commands for firnd" >&2
    exit 2
}

# page COMMAND...: the help page as mdoc.
page()
{
    "$firn" "$@" --help | awk -v title="firn $*" '
    # A text line: neither a request nor an escape.
    function text(s)
    {
        gsub(/\\/, "\\e", s)
        sub(/^[.\047]/, "\\\\\\&&", s)
        return s
    }
    function put(s)
    {
        if (s == "") {
            if (part == "about" || part == "more")
                waits = 1
            return
        }
        if (waits && !is_first)
            print ".Pp"
        waits = is_first = 0
        if (s ~ /^    /) {
            print ".Dl " text(substr(s, 5))
            return
        }
        print text(s)
    }
    function end_option()
    {
        if (option == "")
            return
        print ".It " option
        help = toupper(substr(help, 1, 1)) substr(help, 2)
        print text(help) (help ~ /[.]$/ ? "" : ".")
        option = ""
    }
    BEGIN {
        print ".Ss " title
        part = "usage"
        is_first = 1
    }
    part == "usage" {
        if ($0 == "")
            part = "about"
        next
    }
    part == "about" && $0 == "options:" {
        part = "options"
        next
    }
    part == "options" && $0 == "" {
        end_option()
        if (has_list)
            print ".El"
        part = "more"
        waits = has_list
        is_first = !has_list
        next
    }
    part == "more" && /^[a-z]+ options:$/ { # a second list
        print ".Pp"
        print toupper(substr($0, 1, 1)) substr($0, 2)
        part = "options"
        has_list = 0
        next
    }
    part == "options" && /^  (-.,|   ) --/ {
        end_option()
        line = substr($0, 3)
        help = ""
        if (match(substr(line, 5), /  /)) {
            help = substr(line, RSTART + 6)
            line = substr(line, 1, RSTART + 3)
        }
        sub(/^ +/, "", help)
        n = split(line, word, " ")
        if (line ~ /--help/)
            next
        option = ""
        for (i = 1; i <= n; i++) {
            sub(/,$/, "", word[i])
            if (word[i] ~ /^-/)
                option = option (option == "" ? "" : " , ") "Fl " \
                    substr(word[i], 2)
            else
                option = option " Ar " text(word[i])
        }
        if (!has_list)
            print ".Bl -tag -width Ds"
        has_list = 1
        next
    }
    part == "options" {
        sub(/^ +/, "")
        if (option != "")
            help = help (help == "" ? "" : " ") $0
        next
    }
    { put($0) }
    END {
        end_option()
        if (part == "options" && has_list)
            print ".El"
    }'
}

commands()
{
    "$firn" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' |
        while read -r command; do
            # A command with subcommands has no page of its own.
            subs=$("$firn" "$command" --help |
                sed -n "s/^\(usage:\|      \) firn $command \([a-z]*\) .*   .*/\2/p")
            if [ -n "$subs" ]; then
                for sub in $subs; do
                    page "$command" "$sub"
                done
            else
                page "$command"
            fi
        done
}

sed '/^\.Sh COMMANDS/q' "$manual"
commands
sed -n '/^\.Sh COMMANDS/,$p' "$manual" | sed 1d | sed -n '/^\.Sh /,$p'
