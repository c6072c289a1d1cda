# packages.sh - finds out what is missing on this machine, and installs it.
#
# To be sourced by ./quickstart and ./check, from the root of the tree. POSIX
# sh: a bare Debian has nothing else. A package counts as installed if its
# command or library is found, wherever it comes from; missing ones are installed
# by their Debian names. If all is there, neither root nor a network is needed.

# libcyaml-dev wants libyaml when linking, but does not bring it.
build_packages="build-essential pkg-config libcyaml-dev libyaml-dev
    libcminpack-dev liblapack-dev libcurl4-openssl-dev libsqlite3-dev
    libuv1-dev libmicrohttpd-dev libjansson-dev libsodium-dev"
check_packages="libcmocka-dev clang clang-tidy clang-format cppcheck valgrind
    clang-runtime procps coinor-cbc curl"
# The example trainers read real pictures with it, and make some up without.
example_packages="zlib1g-dev"
# For tools/slurm-bed: tests that need them are skipped where they are not.
slurm_packages="slurmctld slurmd slurm-client munge iproute2"

# why PACKAGE: what it is for, in words.
why()
{
    case $1 in
    build-essential) echo "C compiler and make" ;;
    pkg-config) echo "finds the libraries" ;;
    libcyaml-dev) echo "reads YAML cluster files" ;;
    libyaml-dev) echo "libcyaml stands on it" ;;
    libcminpack-dev) echo "fits performance models" ;;
    liblapack-dev) echo "linear least squares" ;;
    libcurl4-openssl-dev) echo "trainers report over HTTP" ;;
    libsqlite3-dev) echo "the daemon's memory on disk" ;;
    libuv1-dev) echo "the daemon's loop" ;;
    libmicrohttpd-dev) echo "the daemon's HTTP API" ;;
    libjansson-dev) echo "reads and writes JSON" ;;
    libsodium-dev) echo "tokens; trainers on several hosts" ;;
    zlib1g-dev) echo "example trainers read compressed pictures, firnd packs answers" ;;
    libcmocka-dev) echo "unit tests" ;;
    clang) echo "second compiler, fuzzing" ;;
    libclang-*) echo "sanitizer and fuzzing runtime of clang" ;;
    clang-tidy | cppcheck) echo "static analysis" ;;
    clang-format) echo "format check" ;;
    valgrind) echo "memory checks" ;;
    coinor-cbc) echo "the exact solver that others are tested against" ;;
    procps) echo "tests that look for processes" ;;
    curl) echo "tests that call the HTTP API" ;;
    slurmctld) echo "Slurm's controller, for tests against a real one" ;;
    slurmd) echo "Slurm's nodes" ;;
    slurm-client) echo "Slurm's commands" ;;
    munge) echo "how Slurm's parts know each other" ;;
    iproute2) echo "hosts of their own for Slurm's nodes" ;;
    libc6-dbg) echo "lets valgrind start" ;;
    *) echo "needed" ;;
    esac
}

has_command()
{
    command -v "$1" >/dev/null 2>&1
}

has_library()
{
    has_command pkg-config && pkg-config --exists "$1" 2>/dev/null
}

# /usr/sbin is not on the path of every user.
has_daemon()
{
    has_command "$1" || [ -x "/usr/sbin/$1" ]
}

# Can clang build and start a fuzz target? That needs its runtime.
has_clang_runtime()
{
    has_command clang || return 1
    try=$(mktemp -d "${TMPDIR:-/tmp}/firn-clang.XXXXXX") || return 1
    echo '#include <stdint.h>
#include <stddef.h>
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{ (void)p; (void)n; return 0; }' >"$try/t.c"
    clang -fsanitize=fuzzer,address "$try/t.c" -o "$try/t" >/dev/null 2>&1
    built=$?
    rm -rf "$try"
    return $built
}

# is_there PACKAGE
is_there()
{
    case $1 in
    build-essential) has_command gcc && has_command make && has_command ar &&
        [ -f /usr/include/stdio.h ] ;;
    libcyaml-dev) has_library libcyaml ;;
    libyaml-dev) has_library yaml-0.1 ;;
    libcminpack-dev) has_library cminpack ;;
    liblapack-dev) has_library lapack ;;
    libcurl4-openssl-dev) has_library libcurl ;;
    libsqlite3-dev) has_library sqlite3 ;;
    libuv1-dev) has_library libuv ;;
    libmicrohttpd-dev) has_library libmicrohttpd ;;
    libjansson-dev) has_library jansson ;;
    libsodium-dev) has_library libsodium ;;
    zlib1g-dev) has_library zlib ;;
    libcmocka-dev) has_library cmocka ||
        [ -f /usr/include/cmocka.h ] ;;
    clang-runtime) has_clang_runtime ;;
    procps) has_command pgrep ;;
    coinor-cbc) has_command cbc ;;
    slurmctld | slurmd) has_daemon "$1" ;;
    slurm-client) has_command sbatch ;;
    munge) has_daemon munged ;;
    iproute2) has_daemon ip ;;
    valgrind) has_command valgrind && valgrind -q true >/dev/null 2>&1 ;;
    *) has_command "$1" ;;
    esac
}

# missing PACKAGE...: those that are not there.
missing()
{
    for package in "$@"; do
        is_there "$package" || printf '%s ' "$package"
    done
}

# The packages apt should install for those names. What clang's runtime is
# called depends on which clang there is, or which apt would bring.
apt_names()
{
    for package in "$@"; do
        case $package in
        clang-runtime)
            n=$(clang -dumpversion 2>/dev/null | sed 's/\..*//')
            [ -n "$n" ] || n=$(apt-cache depends clang 2>/dev/null |
                sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
            if [ -z "$n" ]; then
                printf 'libclang-rt-dev '
            elif apt-cache show "libclang-rt-$n-dev" >/dev/null 2>&1; then
                printf '%s ' "libclang-rt-$n-dev"
            else
                printf '%s ' "libclang-common-$n-dev"
            fi
            ;;
        valgrind)
            # There, but does not start: it lacks the C library's symbols.
            if has_command valgrind; then
                printf 'libc6-dbg '
            else
                printf 'valgrind '
            fi
            ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

# install_missing PACKAGE...: sees to it that all are there, or says what to
# do and exits.
install_missing()
{
    lacking=$(missing "$@")
    [ -n "$lacking" ] || return 0
    if ! has_command apt-get; then
        echo "This machine lacks: $lacking" >&2
        echo "These are Debian's names, and there is no apt-get here: install" \
            "the like with your own package manager, then run $0 again." >&2
        exit 1
    fi
    root=
    if [ "$(id -u)" -ne 0 ]; then
        root=sudo
        if ! has_command sudo; then
            names=$(apt_names $lacking | sed 's/ *$//')
            echo "Some packages are missing, and installing them needs root." \
                "Ask an administrator to run:" >&2
            echo "    apt-get update && apt-get install -y" \
                "--no-install-recommends $names" >&2
            exit 1
        fi
    fi
    install_with "$root" $lacking
    # What could not be seen before the first were there.
    lacking=$(missing "$@")
    [ -z "$lacking" ] || install_with "$root" $lacking
    lacking=$(missing "$@")
    if [ -n "$lacking" ]; then
        echo "Still missing after the installation: $lacking" >&2
        exit 1
    fi
}

# install_if_possible WHAT PACKAGE...: as above, but one can do without; then a
# word says what is left out, and the status is 1.
install_if_possible()
{
    what=$1
    shift
    (install_missing "$@") && return
    echo "Going on without: $what"
    return 1
}

# install_with SUDO PACKAGE...
install_with()
{
    root=$1
    shift
    if [ -n "$root" ]; then
        echo "Some packages are missing; sudo may ask for your password."
    fi
    if [ -z "$updated" ]; then
        echo "Reading the list of packages (apt-get update)."
        quietly $root apt-get update
        updated=1
    fi
    names=$(apt_names "$@")
    echo "Installing:"
    for package in $names; do
        printf '    %-20s %s\n' "$package" "$(why "$package")"
    done
    quietly $root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $names
}

# quietly COMMAND...: shows its output only when it fails, then exits.
quietly()
{
    log=$(mktemp "${TMPDIR:-/tmp}/firn-apt.XXXXXX") || exit 1
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "This failed: $*" >&2
        exit 1
    fi
    rm -f "$log"
}
