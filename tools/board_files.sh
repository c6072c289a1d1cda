#!/bin/sh
# board_files.sh FILE... - the files of the board as C, for boardfiles.c.
#
# For each file the plain bytes, the same compressed by gzip, and a tag that
# changes with the bytes. `gzip -n` leaves out name and time, so that the same
# files give the same C.
set -eu
numbers() { od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g'; }
i=0
for file in "$@"; do
    printf 'static const unsigned char plain_%d[] = {\n' "$i"
    numbers <"$file"
    printf '};\nstatic const unsigned char packed_%d[] = {\n' "$i"
    gzip -9 -n -c "$file" | numbers
    printf '};\n'
    i=$((i + 1))
done
echo 'static const struct board_file files[] = {'
i=0
for file in "$@"; do
    case $file in
    *.html) type='text/html; charset=utf-8' ;;
    *.css) type='text/css; charset=utf-8' ;;
    *.js) type='text/javascript; charset=utf-8' ;;
    *.svg) type='image/svg+xml' ;;
    *)
        echo "board_files.sh: $file: what type is it?" >&2
        exit 1
        ;;
    esac
    tag=$(sha256sum "$file" | cut -c1-16)
    printf '    {"%s", "%s", "\\"%s\\"", plain_%d, sizeof plain_%d,' \
        "${file##*/}" "$type" "$tag" "$i" "$i"
    printf ' packed_%d, sizeof packed_%d},\n' "$i" "$i"
    i=$((i + 1))
done
echo '};'
