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
. tests/lib/cases.sh

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

# The programs of docs/library.md, as they stand there: code WHICH [cpp].
code()
{
    awk -v want="$1" -v lang="\`\`\`${2:-c}" '
        $0 == lang { on = ++n == want; next } /^```$/ { on = 0 } on' \
        docs/library.md
}

# Every global name of a static library begins with firn_.
static_names_begin_with_firn()
{
    for lib in libfirn libfirn_train; do
        nm -g --defined-only "$prefix/lib/$lib.a" | awk 'NF == 3 { print $3 }' \
            >"$tmp/global"
        [ -s "$tmp/global" ] || { echo "$lib.a has no names"; return 1; }
        ! grep -v '^firn_' "$tmp/global" || return 1
    done
}

# A program's own log_info and buf_add are called by itself alone.
cat >"$tmp/clash.c" <<'C'
#include <firn/firn.h>
#include <stdio.h>
#include <stdlib.h>

void log_info(const char *fmt, ...);
void buf_add(struct firn_buf *buf, const char *bytes, size_t n);
void log_info(const char *fmt, ...) { (void)fmt; abort(); }
void buf_add(struct firn_buf *buf, const char *bytes, size_t n)
{
    (void)buf, (void)bytes, (void)n;
    abort();
}

int main(void)
{
    struct firn_buf out = {0};
    firn_buf_add(&out, "ours", 4);
    puts(out.at);
    firn_buf_release(&out);
    return 0;
}
C
names_of_a_program_do_not_clash()
{
    static=$(flags --cflags --libs --static |
        sed "s|-lfirn|$prefix/lib/libfirn.a|")
    ${CC:-gcc} -std=c17 -o "$tmp/clash" "$tmp/clash.c" $static &&
        "$tmp/clash" | grep -qx ours
}

# runs_smallest PROGRAM: it simulates its own policy to the end.
runs_smallest()
{
    LD_LIBRARY_PATH=$prefix/lib "$1" traces/quickstart.csv | tee "$tmp/out"
    grep -q '^smallest: 400 jobs, mean completion time [1-9][0-9]* s$' "$tmp/out"
}

c_program_has_its_own_policy()
{
    code 1 >"$tmp/small.c"
    ${CC:-gcc} -std=c17 -Wall -Wextra -Wpedantic -Werror -o "$tmp/small" \
        "$tmp/small.c" $(flags --cflags --libs) && runs_smallest "$tmp/small"
}

cxx_program_has_its_own_policy()
{
    cxx=$(command -v g++ || command -v clang++) ||
        { echo "no C++ compiler"; return 0; }
    code 1 cpp >"$tmp/small.cpp"
    $cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$tmp/smallpp" \
        "$tmp/small.cpp" $(flags --cflags --libs) &&
        runs_smallest "$tmp/smallpp" && cp "$tmp/out" "$tmp/cpp.out" &&
        runs_smallest "$tmp/small" && cmp "$tmp/out" "$tmp/cpp.out"
}

# Types and macros of a program may have names that firn uses inside.
headers_leave_names_alone()
{
    cxx=$(command -v g++ || command -v clang++) ||
        { echo "no C++ compiler"; return 0; }
    {
        echo 'enum class state { on }; struct arena { int n; }; class round {};'
        echo '#define X 1'
        echo '#include <firn/firn.h>'
        echo 'int x = X;'
    } | $cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ - \
        $(flags --cflags)
}

# plugin FILE.c: compiles it to FILE.so as docs/library.md says.
plugin()
{
    ${CC:-gcc} -std=c17 -Wall -Wextra -Wpedantic -Werror -shared -fPIC \
        -o "${1%.c}.so" "$1" $(flags --cflags)
}

# in_tmp FIRN_ARGS...: the installed program, in the folder of the plug-ins.
in_tmp()
{
    root=$PWD
    (cd "$tmp" && "$prefix/bin/firn" "$@" --trace "$root/traces/quickstart.csv" \
        --cluster pollux)
}

shared_object_has_a_policy()
{
    code 2 >"$tmp/largest.c"
    plugin "$tmp/largest.c" || return 1
    (cd "$tmp" && "$prefix/bin/firn" policies ./largest.so) |
        grep '^largest.limit ' || return 1
    in_tmp sim --policy ./largest.so,fifo -o csv >"$tmp/two.csv" || return 1
    in_tmp sim --policy ./largest.so --set largest.limit=2 -o csv \
        >"$tmp/limited.csv" || return 1
    cat "$tmp/two.csv" "$tmp/limited.csv"
    [ "$(grep -c ',largest,' "$tmp/two.csv")" -eq 1 ] &&
        [ "$(grep -c ',fifo,' "$tmp/two.csv")" -eq 1 ] &&
        ! grep -qxF "$(grep ,largest, "$tmp/two.csv")" "$tmp/limited.csv"
}

# The C++ program of the page, without its main, as a plug-in.
cxx_shared_object_has_a_policy()
{
    cxx=$(command -v g++ || command -v clang++) ||
        { echo "no C++ compiler"; return 0; }
    {
        sed '/^int main/,$d; s/"smallest"/"small-cxx"/' "$tmp/small.cpp"
        echo 'static const firn_policy_def policy = make_policy();'
        echo 'FIRN_POLICY_PLUGIN(policy);'
    } >"$tmp/plugin.cpp"
    $cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror -fvisibility=hidden \
        -shared -fPIC -o "$tmp/cxx.so" "$tmp/plugin.cpp" $(flags --cflags) &&
        in_tmp sim --policy ./cxx.so -o csv | grep ',small-cxx,'
}

# refused WORDS SED: largest.c so changed is not loaded, and a sentence says why.
refused()
{
    sed "$2" "$tmp/largest.c" >"$tmp/wrong.c"
    ! cmp -s "$tmp/largest.c" "$tmp/wrong.c" || { echo "no change: $2"; return 1; }
    plugin "$tmp/wrong.c" || return 1
    ! in_tmp sim --policy ./wrong.so >"$tmp/why" 2>&1 || return 1
    cat "$tmp/why"
    grep -qF -e "$1" "$tmp/why"
}

wrong_shared_objects_are_named()
{
    refused 'has no policy: it does not define firn_policy_plugin' \
        's/^FIRN_POLICY_PLUGIN.*/extern const int other; const int other = 1;/;
         s/^static const struct firn_policy_def/const struct firn_policy_def/' &&
        refused 'was built for version 2 of the policy interface' \
            's/^FIRN_POLICY_PLUGIN(largest);/FIRN_API const struct firn_policy_plugin firn_policy_plugin = {sizeof(struct firn_policy_plugin), 2, 0, 0, \&largest};/' &&
        refused 'set .size = sizeof(struct firn_policy_def)' '/\.size = /d' &&
        refused 'built for a newer firn' \
            's/\.size = sizeof(struct firn_policy_def)/& + 8/' &&
        refused "'Largest' is no name for a policy" 's/"largest"/"Largest"/' &&
        refused "there is a policy 'fifo' already" 's/"largest"/"fifo"/' &&
        refused 'has no `decide`' '/\.decide = /d; s/^static enum firn_status/enum firn_status decide(void *, const struct firn_view *, struct firn_plan *);\nenum firn_status/' || return 1
    ! in_tmp sim --policy ./none.so >"$tmp/why" 2>&1 &&
        grep -F "there is no shared object './none.so'" "$tmp/why" || return 1
    echo text >"$tmp/text.so"
    ! in_tmp sim --policy ./text.so >"$tmp/why" 2>&1 &&
        grep -F "cannot load a policy" "$tmp/why"
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
try global_names_of_the_static_libraries_begin_with_firn static_names_begin_with_firn
try a_function_of_a_program_does_not_replace_one_of_the_library names_of_a_program_do_not_clash
try a_c_program_simulates_a_policy_of_its_own c_program_has_its_own_policy
try a_cxx_program_simulates_the_same_policy cxx_program_has_its_own_policy
try headers_leave_common_names_to_programs headers_leave_names_alone
try firn_sim_loads_a_policy_from_a_shared_object shared_object_has_a_policy
try firn_sim_loads_a_policy_written_in_cxx cxx_shared_object_has_a_policy
try a_shared_object_that_cannot_be_used_is_refused_with_the_reason wrong_shared_objects_are_named
try a_trainer_compiles_and_runs_with_the_trainers_library trains_with_it
try its_sources_need_libc_alone trains_with_libc_alone
try the_trainers_library_exports_only_its_own trainers_export_only_their_own
try the_installed_program_says_its_version program_runs
try uninstall_leaves_nothing_behind uninstalls
echo "1..$n"
