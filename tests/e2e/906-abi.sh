#!/bin/sh
# 906-abi.sh - compiled programs keep working: the binary interface is the one
# that tests/abi/libfirn.txt has, or a version was raised with it.
#
# Also: the structs that Python repeats have the members of the C structs, and a
# library with other structs is refused when it is loaded. TAP on stdout.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${FIRN_BUILD:-build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/firn-abi.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
. tests/lib/cases.sh

is_as_written()
{
    tools/abi_dump.sh "$build" >"$tmp/abi" || return 1
    diff tests/abi/libfirn.txt "$tmp/abi" && return 0
    cat <<'T'
The binary interface differs from tests/abi/libfirn.txt (< there, > now). A version
needs to be raised once a release:
- Only functions or enum constants were added, or members at the end of a struct
  that begins with `size`, or at the end of firn_job, firn_view or firn_cluster:
  raise FIRN_VERSION_MINOR in include/firn/version.h.
- Anything else (a name removed, a member moved, another struct changed size):
  compiled programs break. Raise FIRN_VERSION_MAJOR, and FIRN_POLICY_ABI in
  include/firn/policy.h if policies see it; if Python repeats the struct, change
  python/firn/_lib.py too.
Then: tools/abi_dump.sh build >tests/abi/libfirn.txt
T
    return 1
}

# A member that moved, a struct that grew and a name that is gone are found.
a_difference_is_found()
{
    for edit in 's/^  decide 64 8$/  decide 72 8/' 's/^struct firn_how 32$/struct firn_how 36/' \
        '/^firn_sim_run$/d'; do
        sed "$edit" "$tmp/abi" >"$tmp/other"
        ! cmp -s "$tmp/abi" "$tmp/other" || { echo "no line for $edit"; return 1; }
    done
}

cat >"$tmp/mirror.py" <<'P'
import ctypes, importlib.util, sys

spec = importlib.util.spec_from_file_location("firn_lib", "python/firn/_lib.py")
lib = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lib)
layout, of = {}, None
for line in open(sys.argv[1]):
    word = line.split()
    if line.startswith("struct "):
        of = layout[word[1]] = {"": int(word[2])}
    elif line.startswith("  ") and of is not None:
        of[word[0]] = (int(word[1]), int(word[2]))
structs = lib.structs()
assert len(structs) > 15, structs
for name, cls in structs.items():
    mine = {f[0]: (getattr(cls, f[0]).offset, getattr(cls, f[0]).size)
            for f in cls._fields_}
    mine[""] = ctypes.sizeof(cls)
    assert mine == layout[name], (name, mine, layout[name])


class Odd:
    """A library in which one struct is larger."""

    class firn_struct_size:
        def __new__(cls, name):
            size = ctypes.sizeof(structs[name.decode()])
            return size + 8 if name == b"firn_orders" else size


class Old:
    """A library before sizes could be asked for."""


size = ctypes.sizeof(structs["firn_orders"])
for library, words in ((Odd, f"firn_orders has {size + 8} bytes, {size} here"),
                       (Old, "no firn_struct_size")):
    try:
        lib.check_sizes(library, "there.so")
    except lib.FirnError as error:
        assert words in str(error) and "there.so" in str(error), error
    else:
        raise AssertionError(words)
assert lib.lib()
P
python_repeats_it()
{
    command -v python3 >/dev/null || { echo "no python3"; return 0; }
    FIRN_TRAIN_LIB=$build/libfirn_train.so PYTHONDONTWRITEBYTECODE=1 \
        python3 "$tmp/mirror.py" "$tmp/abi"
}

if [ "$(getconf LONG_BIT)" != 64 ]; then
    echo "1..0 # SKIP tests/abi is of 64-bit machines"
    exit 0
fi
try the_binary_interface_is_the_one_in_tests_abi is_as_written
try a_moved_member_or_a_removed_name_is_a_difference a_difference_is_found
try python_repeats_the_structs_exactly_and_refuses_another_library python_repeats_it
echo "1..$n"
