#!/bin/sh
# 900-install.sh - make install gives what a user of the library needs.
#
# Installs below a temporary folder, compiles a small program with the flags
# of pkg-config against the installed headers and library, and runs it. TAP on
# stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${FIRN_BUILD:-build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-install.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
prefix=$tmp/root/usr
n=0

# try NAME COMMAND...: one case; shows what the command said when it fails.
try()
{
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$tmp/said" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$tmp/said"
    fi
}

installs()
{
    make install BUILD="$build" DESTDIR="$tmp/root" PREFIX=/usr
}

has_all_files()
{
    for file in bin/firn include/firn/firn.h lib/libfirn.a lib/libfirn.so \
        lib/libfirn_train.a lib/libfirn_train.so lib/libfirn_d2.so \
        lib/pkgconfig/firn.pc lib/pkgconfig/firn_train.pc \
        share/man/man1/firn.1; do
        [ -f "$prefix/$file" ] || { echo "no $file"; return 1; }
    done
    [ ! -x "$build/firnd" ] || [ -x "$prefix/bin/firnd" ] ||
        { echo "no bin/firnd"; return 1; }
    for header in include/firn/*.h; do
        cmp "$header" "$prefix/$header" || return 1
    done
}

version()
{
    sed -n 's/^#define FIRN_VERSION *"\(.*\)"/\1/p' include/firn/version.h
}

has_soname()
{
    full=$(version)
    [ "$(readlink -f "$prefix/lib/libfirn.so")" = \
        "$(readlink -f "$prefix/lib/libfirn.so.$full")" ] || return 1
    [ -L "$prefix/lib/libfirn.so.${full%%.*}" ] || return 1
    objdump -p "$prefix/lib/libfirn.so" | grep SONAME
    objdump -p "$prefix/lib/libfirn.so" |
        grep -q "SONAME *libfirn.so.${full%%.*}\$"
}

# Everything exported begins with firn_, and everything the headers declare as
# exported is there.
exports_only_its_own()
{
    nm -D --defined-only "$prefix/lib/libfirn.so" | awk '{ print $3 }' \
        >"$tmp/exported"
    [ -s "$tmp/exported" ] || { echo "nothing is exported"; return 1; }
    ! grep -v '^firn_' "$tmp/exported"
}

exports_what_headers_promise()
{
    cat include/firn/*.h | grep -v '^#' | tr '\n' ' ' | grep -o 'FIRN_API [^;(]*(' |
        sed 's/($//; s/.*[ *]//' | sort -u >"$tmp/promised"
    [ -s "$tmp/promised" ] || return 1
    sort -u "$tmp/exported" >"$tmp/sorted"
    absent=$(comm -23 "$tmp/promised" "$tmp/sorted")
    [ -z "$absent" ] || { echo "not exported:" $absent; return 1; }
}

# flags WHAT...: what pkg-config says, for the folder installed to.
flags()
{
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        pkg-config --define-variable=prefix="$prefix" "$@" firn
}

knows_its_version()
{
    [ "$(flags --modversion)" = "$(version)" ]
}

cat >"$tmp/user.c" <<'C'
#include <firn/firn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct firn_error err;
    struct firn_cluster cluster;
    size_t n;

    if (firn_cluster_open(&cluster, "2x4:v100", &err) != FIRN_OK) {
        puts(err.text);
        return 1;
    }
    const struct firn_policy_def *const *policies = firn_policies(&n);
    printf("%d GPUs, %zu policies, first %s\n", cluster.ngpus, n,
           policies[0]->name);
    firn_cluster_release(&cluster);
    return n == 0 || strcmp(FIRN_VERSION, "") == 0;
}
C

compiles_against_it()
{
    ${CC:-gcc} -std=c17 -Wall -Wextra -Wpedantic -Werror -o "$tmp/user" \
        "$tmp/user.c" $(flags --cflags --libs)
}

runs_with_it()
{
    LD_LIBRARY_PATH=$prefix/lib "$tmp/user" | tee "$tmp/user.out"
    grep -q '^8 GPUs, [1-9]' "$tmp/user.out" &&
        LD_LIBRARY_PATH=$prefix/lib ldd "$tmp/user" |
        grep "libfirn.so.*$prefix/lib"
}

links_statically()
{
    static=$(flags --cflags --libs --static |
        sed "s|-lfirn|$prefix/lib/libfirn.a|")
    ${CC:-gcc} -std=c17 -o "$tmp/user2" "$tmp/user.c" $static &&
        "$tmp/user2" | grep -q '^8 GPUs'
}

# A trainer of five lines, with the trainers' library alone.
cat >"$tmp/trainer.c" <<'C'
#include <firn/train.h>
#include <stdio.h>

int main(void)
{
    struct firn_error err;
    struct firn_train *t;
    const size_t start[] = {0, 3};
    float w[3] = {0}, g[3] = {1, 2, 3}, mean[3];
    struct firn_train_config c = {.nthreads = 2, .nlayers = 1,
                                  .layer_start = start, .nepochs = 1,
                                  .steps_per_epoch = 4};
    if (firn_train_open(&t, &c, &err) != FIRN_OK)
        return puts(err.text), 1;
    while (firn_train_go(t)) {
        while (firn_train_enter(t) >= 0)
            firn_train_leave(t, g, 1);
        firn_train_mean(t, mean);
        for (int i = 0; i < 3; i++)
            w[i] -= mean[i];
    }
    printf("%g %g %g\n", (double)w[0], (double)w[1], (double)w[2]);
    return firn_train_close(t, &err);
}
C

trains_with_it()
{
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        pkg-config --define-variable=prefix="$prefix" --cflags --libs \
        firn_train)
    ${CC:-gcc} -std=c17 -o "$tmp/trainer" "$tmp/trainer.c" $flags &&
        LD_LIBRARY_PATH=$prefix/lib "$tmp/trainer" | grep -qx -e '-4 -8 -12'
}

# Its sources need a C compiler and libc: no flags of any library, and without
# them reports are left out.
trains_with_libc_alone()
{
    sources=$(make -s -f Makefile -f - show <<'M'
show: ; @echo $(TRAINSRC)
M
    )
    ${CC:-gcc} -std=c17 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc \
        -o "$tmp/alone" "$tmp/trainer.c" $sources -lm -lpthread &&
        "$tmp/alone" | grep -qx -e '-4 -8 -12' &&
        ! ldd "$tmp/alone" | grep -E 'curl|lapack|yaml'
}

trainers_export_only_their_own()
{
    nm -D --defined-only "$prefix/lib/libfirn_train.so" |
        awk '{ print $3 }' >"$tmp/theirs"
    [ -s "$tmp/theirs" ] && ! grep -v '^firn_' "$tmp/theirs"
}

program_runs()
{
    "$prefix/bin/firn" version | grep -F "$(version)"
}

uninstalls()
{
    make uninstall BUILD="$build" DESTDIR="$tmp/root" PREFIX=/usr || return 1
    left=$(find "$tmp/root" ! -type d)
    [ -z "$left" ] || { echo "left behind:" $left; return 1; }
}

try make_install_succeeds installs
try every_file_is_in_its_place has_all_files
try the_library_has_its_soname_and_links has_soname
try exported_names_begin_with_firn exports_only_its_own
try what_the_headers_promise_is_exported exports_what_headers_promise
try pkg_config_knows_the_version knows_its_version
try a_program_compiles_with_the_installed_headers compiles_against_it
try it_runs_with_the_installed_library runs_with_it
try it_links_with_the_static_library_too links_statically
try a_trainer_compiles_and_runs_with_the_trainers_library trains_with_it
try its_sources_need_libc_alone trains_with_libc_alone
try the_trainers_library_exports_only_its_own trainers_export_only_their_own
try the_installed_program_says_its_version program_runs
try uninstall_leaves_nothing_behind uninstalls
echo "1..$n"
