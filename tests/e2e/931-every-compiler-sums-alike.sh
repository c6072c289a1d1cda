#!/bin/sh
# 931-every-compiler-sums-alike.sh - folds, variances and matrix products have
# the same bits with every compiler.
#
# One program, with the objects that this build has made, built by gcc without
# optimisation, by clang with all that the machine has, and for arm64 where a
# compiler and an emulator are there. With folds and variances by -ffast-math it
# must differ, or the comparison proves nothing.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/e2e.sh

folds="src/train/fold.c src/train/tree.c src/train/ring.c src/train/gradstat.c"
products="src/blas/gemm.c src/blas/tiles.c src/blas/fortran.c"

# objects SOURCE...: the names of their objects in this build.
objects()
{
    for file; do
        echo "${FIRN_BUILD:-build}/obj/${file%.c}.o"
    done
}

# digest FILES COMPILER FLAG...: what the program says when it is built like that.
# The words of FILES are meant to be split.
digest()
{
    files=$1
    shift
    "$@" -std=c17 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -o "$tmp/digest" \
        tests/blas/digest.c $files -lm >"$tmp/out" 2>&1 ||
        fail "$* does not compile it"
    $emulator "$tmp/digest"
}

same()
{
    digest "$folds $products" "$@" -ffp-contract=off >"$tmp/got" || fail "$*: it does not run"
    cmp -s "$tmp/want" "$tmp/got" ||
        fail "$*: $(diff "$tmp/want" "$tmp/got" | grep '^[<>]' | tr '\n' ' ')"
}

emulator=
digest "$(objects $folds $products)" gcc -O1 -ffp-contract=off >"$tmp/want"
[ "$(wc -l <"$tmp/want")" -eq 4 ] || fail "it does not say four lines"
same gcc -O0
if command -v clang >/dev/null; then
    same clang -O3 -march=native
fi
if command -v aarch64-linux-gnu-gcc >/dev/null &&
    command -v qemu-aarch64 >/dev/null; then
    emulator=qemu-aarch64
    same aarch64-linux-gnu-gcc -O2 -static
    emulator=
fi
digest "$folds $(objects $products)" gcc -O2 -ffast-math >"$tmp/got"
cmp -s "$tmp/want" "$tmp/got" && fail "-ffast-math makes no difference"
exit 0
