#!/bin/sh
# config_example.sh - prints the firn.yaml of the package: every option of firnd.
#
#   config_example.sh FIRND
#
# The options that a shared host needs are set; all others are comments made from
# the help page of FIRND, with the default as value where the page has one.
set -eu
cat <<'END'
# firn.yaml - options of firnd. The manual page firn.yaml(5) explains each key.
#
# After a change:
#     firnd --check-config --config /etc/firn/firn.yaml
#     systemctl reload firnd
# A change of engine, gpus, state, socket, listen, launcher or of the settings of
# the backend takes effect by `systemctl restart firnd`; running jobs go on.

# State directory, and the socket by which users reach firnd.
state: /var/lib/firn
socket: /run/firn/firn.sock

# Members of this group submit jobs: adduser ann firn-users
socket-group: firn-users

# Jobs run as the users who submitted them, by firn-launch.service.
launcher: /run/firn-launch/sock

# --- every option ----------------------------------------------------------
# Remove the '#' before a key to set it. A value in capitals is a placeholder.
END
"$1" --help | awk '
function flush_one(   i)
{
    if (key == "")
        return
    value = arg
    if (match(help, /\(default: [^ ;)]+\)/))
        value = substr(help, RSTART + 10, RLENGTH - 11)
    if (value == "off" || value == "none")
        value = arg
    print ""
    n = split(help, word, " ")
    line = "#"
    for (i = 1; i <= n; i++) {
        if (length(line) + length(word[i]) > 77) {
            print line
            line = "#"
        }
        line = line " " word[i]
    }
    print line
    nkeys = split(key, each, ",")
    for (i = 1; i <= nkeys; i++)
        if (each[i] == "set")
            print "#settings: [icefrog.interval=120, local.cgroup=auto]"
        else
            print "#" each[i] ": " (value == "" ? "no" : value)
    key = help = ""
}
/^  --/ {
    flush_one()
    line = substr($0, 3)
    help = ""
    if (match(line, /   */)) {
        help = substr(line, RSTART + RLENGTH)
        line = substr(line, 1, RSTART - 1)
    }
    if (line ~ /^--(config|check-config|help|state|socket|socket-group|launcher)( |,|$)/)
        next # no keys, or set above
    n = split(line, option, ", ")
    key = arg = ""
    for (i = 1; i <= n; i++) {
        m = split(option[i], part, " ")
        key = key (i > 1 ? "," : "") substr(part[1], 3)
        arg = part[2]
    }
    next
}
/^ +[^ ]/ && key != "" { sub(/^ +/, ""); help = help (help == "" ? "" : " ") $0; next }
{ flush_one() }
END { flush_one() }'
