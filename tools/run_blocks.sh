#!/bin/bash
# run_blocks.sh - runs the command blocks of a page, as its reader would.
#
#   run_blocks.sh PAGE [BUILD]
#
# A command block is fenced by ```sh and ```. The blocks of a page run in order
# in one bash with `set -e`, so that variables, folders and programs in the
# background stay for the next block. The folder is a scratch one that shows
# the tree, with BUILD (default: build) as build/; HOME, TMPDIR, the state
# directory and the socket of firnd are its own, firn and firnd are on the path,
# PREFIX is a folder of its own, and the user is not root. After a firnd is
# started in the background, the next command waits until it answers. What is
# left at the end of the page is ended. A block below a line that ends with the
# name of a file in backquotes and a colon is written to that file.
#
# A block whose first line is "# needs: WORD" is skipped, with that word, which
# is one of: gpu, slurm, root, network, torch, minutes; "data" is skipped only
# where $FIRN_DATA is not set. Several words are separated by commas or blanks.
#
# TAP on stdout: a case for each block, named by its line. The first block that
# fails ends its page. A page has PAGE_S (default 300) seconds.

page=$1 build=${2:-${FIRN_BUILD:-build}}
root=$(cd "$(dirname "$0")/.." && pwd) || exit 2
cd "$root" || exit 2
[ -f "$page" ] || { echo "run_blocks.sh: there is no page '$page'" >&2; exit 2; }
case $build in
/*) ;;
*) build=$root/$build ;;
esac
# In /tmp: root's TMPDIR may be closed to other users, and the names of sockets
# must be short.
tmp=$(mktemp -d /tmp/firn-page.XXXXXX) || exit 2

# ours: the processes that have the scratch folder in their environment.
ours()
{
    for file in $(grep -lsF "$tmp/" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        [ "${pid%/*}" = $$ ] || echo "${pid%/*}"
    done
}

clean_up()
{
    for try in 1 2 3 4 5 6 7 8 9 10; do
        left=$(ours)
        [ -n "$left" ] || break
        # The first time they may end as they like.
        kill $([ $try -gt 3 ] && echo -9) $left 2>/dev/null
        sleep 0.2
    done
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# --- the blocks --------------------------------------------------------------

# $tmp/blocks/LINE.sh for each, where LINE is the line of the fence; LINE.file
# and LINE.name for a block of another language below a line that ends with the
# name of a file, as "Save it as `small.c`:".
mkdir -p "$tmp/blocks" "$tmp/tree" "$tmp/home" "$tmp/tmp" "$tmp/run"
awk -v to="$tmp/blocks/" '
    /^```/ && in_block { in_block = 0; close(file); next }
    /^```/ {
        in_block = 1
        file = "/dev/null"
        if ($0 == "```sh")
            printf "" >(file = to FNR ".sh")
        else if (match(last, /`[A-Za-z0-9_.\/-]+`:$/)) {
            print substr(last, RSTART + 1, RLENGTH - 3) >(to FNR ".name")
            file = to FNR ".file"
        }
        next
    }
    in_block { print >file }
    !in_block && NF > 0 { last = $0 }' "$page"
lines=$(ls "$tmp/blocks" | sed -n 's/\.sh$//p' | sort -n)
[ -n "$lines" ] || { echo "1..0 # SKIP $page has no command block"; exit 0; }

# --- the place ---------------------------------------------------------------

for entry in "$root"/* ; do
    case ${entry##*/} in
    build) ;;
    *) ln -s "$entry" "$tmp/tree/" ;;
    esac
done
ln -s "$build" "$tmp/tree/build"
chmod 700 "$tmp" "$tmp/home" "$tmp/run"

# firnd refuses to run as root, and a reader is not root.
as=
if [ "$(id -u)" = 0 ]; then
    other="setpriv --reuid=65534 --regid=65534 --clear-groups"
    if $other test -r "$build/firn" -a -r "$root/Makefile" 2>/dev/null; then
        as=$other
        chown -hR 65534:65534 "$tmp"
    elif unshare --user true 2>/dev/null; then
        as="unshare --user"
    else
        echo "1..0 # SKIP root cannot become another user here"
        exit 0
    fi
fi

# --- the page, as one script ---------------------------------------------------

# The trap runs before each command and waits for a firnd that was started and
# does not answer yet.
cat >"$tmp/page" <<'S'
awaited=
await_firnd()
{
    local pid=${!:-} words try
    [ -n "$pid" ] && [ "$pid" != "$awaited" ] || return 0
    for try in {1..300}; do
        kill -0 "$pid" 2>/dev/null || return 0
        words=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")
        case $words in
        *firnd\ *) ! build/firn ls >/dev/null 2>&1 || break ;;
        '' | *bash\ *) ;; # it is not firnd yet; empty during execve()
        *) break ;;
        esac
        sleep 0.1
    done
    awaited=$pid
}
set -eT
trap await_firnd DEBUG
S
n=0
for line in $(ls "$tmp/blocks" | sed -n 's/\.\(sh\|name\)$//p' | sort -n); do
    block=$tmp/blocks/$line.sh
    if [ -f "$tmp/blocks/$line.name" ]; then
        echo "cp '$tmp/blocks/$line.file' '$(cat "$tmp/blocks/$line.name")'" \
            >>"$tmp/page"
        continue
    fi
    words=$(sed -n '1s/^# needs: *//p' "$block" | tr ',' ' ')
    for word in $words; do
        case $word in
        data) [ -z "${FIRN_DATA:-}" ] || continue ;;
        gpu | slurm | root | network | torch | minutes) ;;
        *) word="'$word', a word that run_blocks.sh does not know" ;;
        esac
        echo "$word" >"$tmp/blocks/$line.needs"
    done
    [ -f "$tmp/blocks/$line.needs" ] ||
        printf 'echo; echo @%s; . %s/%s.sh\necho; echo @passed\n' "$line" "$tmp/blocks" \
            "$line" >>"$tmp/page"
done

(
    cd "$tmp/tree" && exec env -i HOME="$tmp/home" USER=reader \
        LOGNAME=reader SHELL=/bin/bash TERM=dumb LANG=C.UTF-8 \
        TMPDIR="$tmp/tmp" XDG_RUNTIME_DIR="$tmp/run" PREFIX="$tmp/prefix" \
        PATH="$build:$PATH" MASTER_PORT=$((20000 + $$ % 10000)) \
        ${FIRN_DATA:+FIRN_DATA="$FIRN_DATA"} ${CC:+CC="$CC"} \
        $as timeout -k 5 "${PAGE_S:-300}" bash --norc "$tmp/page"
) >"$tmp/said" 2>&1 </dev/null
rc=$?

# --- what happened -------------------------------------------------------------

for line in $lines; do
    n=$((n + 1))
    name=$(basename "$page" .md)_line_$line
    needs=$(cat "$tmp/blocks/$line.needs" 2>/dev/null)
    # What was said between its mark and the next.
    sed -n "/^@$line\$/,/^@passed\$/p" "$tmp/said" >"$tmp/one"
    case $needs in
    \'*)
        echo "not ok $n - $name"
        echo "# it needs $needs"
        ;;
    ?*) echo "ok $n # SKIP $name needs $needs" ;;
    *)
        if [ "$(tail -n 1 "$tmp/one")" = @passed ]; then
            echo "ok $n - $name"
        else
            echo "not ok $n - $name"
            [ -s "$tmp/one" ] ||
                echo "# not run: a block before it failed" >"$tmp/one"
            [ $rc -ne 124 ] || echo "took longer than ${PAGE_S:-300} s" \
                >>"$tmp/one"
            tail -n 15 "$tmp/one" | sed 's/^#* */# /'
        fi
        ;;
    esac
done
echo "1..$n"
