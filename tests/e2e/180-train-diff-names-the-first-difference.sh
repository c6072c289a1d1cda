#!/bin/sh
# 180-train-diff-names-the-first-difference.sh - firn train diff and show, on
# checkpoints written here byte by byte: the format is what its header says.
. tests/lib/e2e.sh

# le N VALUE: N bytes, little endian, as octal escapes.
le()
{
    v=$2 i=0
    while [ "$i" -lt "$1" ]; do
        printf '\\%03o' $((v % 256))
        v=$((v / 256)) i=$((i + 1))
    done
}

# crc FILE: CRC-32C of its bytes, in decimal.
crc()
{
    od -An -v -tu1 "$1" | awk '
        function either(a, b,    r, p) {
            r = 0
            for (p = 1; a > 0 || b > 0; p *= 2) {
                if (a % 2 != b % 2)
                    r += p
                a = int(a / 2)
                b = int(b / 2)
            }
            return r
        }
        BEGIN {
            for (i = 0; i < 256; i++) {
                c = i
                for (k = 0; k < 8; k++)
                    c = c % 2 ? either(int(c / 2), 2197175160) : int(c / 2)
                t[i] = c
            }
            sum = 4294967295
        }
        { for (i = 1; i <= NF; i++)
            sum = either(int(sum / 256), t[either(sum % 256, $i)]) }
        END { printf "%.0f\n", either(sum, 4294967295) }'
}

# pad FILE: zeros up to a multiple of 16.
pad()
{
    n=$(($(wc -c <"$1") % 16))
    while [ "$n" -ne 0 ] && [ "$n" -lt 16 ]; do
        printf '\000' >>"$1"
        n=$((n + 1))
    done
}

begin()
{
    printf 'firnckpt\001\000\000\000\000\000\000\000' >"$1"
    : >"$1.crcs"
    count=0
}

# put FILE NAME TYPE COUNT DATA: a section; DATA in escapes of printf, COUNT
# elements (no dims for bytes: type 1).
put()
{
    part=$tmp/part
    printf "$5" >"$tmp/data"
    {
        printf "SECT$(le 4 "$3")$(le 4 $(($3 != 1)))$(le 4 ${#2})"
        [ "$3" -eq 1 ] || printf "$(le 8 "$4")"
        printf "$(le 8 "$(wc -c <"$tmp/data")")"
        printf '%s' "$2"
    } >"$part"
    pad "$part"
    cat "$tmp/data" >>"$part"
    sum=$(le 4 "$(crc "$part")")
    printf "$sum" >>"$part"
    printf "$sum" >>"$1.crcs"
    pad "$part"
    cat "$part" >>"$1"
    count=$((count + 1))
}

finish()
{
    {
        printf "END $(le 4 0)$(le 8 $count)"
        printf "$(le 4 "$(crc "$1.crcs")")$(le 4 0)tpkcnrif"
    } >>"$1"
}

# make FILE WEIGHT BN [PROGRESS]: four sections, or five.
make()
{
    begin "$1"
    put "$1" weights/fc1 2 2 "\000\000\200\077$2"
    put "$1" optimiser/fc1 2 1 '\000\000\000\000'
    put "$1" thread/0/rng 1 0 'abc'
    put "$1" thread/1/bn 1 0 "$3"
    [ $# -lt 4 ] || put "$1" train/progress 1 0 "$4"
    finish "$1"
}

a=$tmp/job-000000000007.ckpt b=$tmp/b.ckpt c=$tmp/c.ckpt d=$tmp/d.ckpt
make "$a" '\000\000\000\100' 'x'
make "$b" '\000\000\000\100' 'x'
make "$c" '\001\000\000\100' 'y'
make "$d" '\000\000\000\100' 'xy'

run 0 train diff "$a" "$b"
out_has "equal: 4 sections"
err_is_empty
run 1 train diff "$a" "$c"
out_has "first difference: 'weights/fc1' (f32 2): element 1 is 2 on the left, 2.00000024 on the right"
grep -q '^weights  *1 of 1  *1 of 2$' "$tmp/out" || fail "weights not summed up"
grep -q '^optimiser  *0 of 1  *0 of 1$' "$tmp/out" || fail "optimiser is there"
grep -q '^thread contexts  *1 of 2  *1 of 4$' "$tmp/out" || fail "no threads"
run 1 train diff "$a" "$d"
out_has "first difference: part 'bn' of thread 1 is 1 bytes on the left, 2 bytes on the right"
run 1 train diff -o json "$a" "$c"
out_has '"equal":false'
out_has '"section":"thread/1/bn","group":"thread contexts","kind":"bits"'
out_has '"left_value":"120","right_value":"121"'
run 0 train diff --output json "$a" "$b"
out_has '"equal":true,"first":null'

# Bookkeeping alone makes no difference; --only chooses what is compared.
e=$tmp/e.ckpt f=$tmp/f.ckpt
make "$e" '\000\000\000\100' 'x' 7
make "$f" '\000\000\000\100' 'x' 8
run 0 train diff "$e" "$f"
out_has "equal: 4 sections"
out_has "not compared: bookkeeping, of which 1 of 1 sections differ"
run 1 train diff --only bookkeeping "$e" "$f"
out_has "first difference: 'train/progress'"
run 1 train diff --only all "$e" "$f"
run 0 train diff --only optimizer,generators "$a" "$c"
out_has "equal: 2 sections"
run 1 train diff --only buffers "$a" "$c"
run 1 train diff --only weights -o json "$a" "$c"
out_has '"bookkeeping_differ":0'
run 2 train diff --only data "$a" "$b"
err_has "neither file has a section of data"
run 2 train diff --only weights,bias "$a" "$b"
err_has "'bias' is not one of weights, optimizer, buffers"

run 0 train show "$a"
out_has "step 7, 4 sections, 16 bytes of data, all checksums are correct"
grep -q '^weights/fc1  *weights  *f32 2  *8$' "$tmp/out" || fail "no section"
run 0 train show -o json "$a"
out_has '"step":7'
out_has '{"type":"f32","dims":[2],"bytes":8}'

# Torn, foreign and missing files are bad input, not a difference.
head -c 150 "$a" >"$tmp/torn"
run 2 train diff "$a" "$tmp/torn"
err_has "torn: is torn"
run 2 train show "$tmp/torn"
printf 'not one' >"$tmp/foreign"
run 2 train diff "$tmp/foreign" "$a"
err_has "foreign: is not a checkpoint"
run 2 train show "$tmp/nowhere"
err_has "nowhere"
run 2 train diff "$a"
run 2 train diff -o jsom "$a" "$b"
err_has "use table or json"
run 2 train
run 2 train dif
err_has "diff or show"
run 0 train --help
run 0 help train
exit 0
