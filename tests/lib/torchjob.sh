# torchjob.sh - an elastic PyTorch job for tests of the live scheduler. Sourced
# behind firnd.sh; skips the test where PyTorch is not there.
#
# $torchjob is the program; its options are those of tests/lib/torchjob.py.
# `torch_alone OPTION...` runs it without a scheduler in the background, at full
# speed; `torch_same FILE` waits for that run and compares the weights that it
# printed with those in a file.
python=${FIRN_PYTHON:-/usr/bin/python3}
lib=$(cd "${FIRN%/firn}" && pwd)/libfirn_train.so
[ -f "$lib" ] || skip "libfirn_train.so is not built"
"$python" -c 'import sys, importlib.util as u
sys.exit(not all(u.find_spec(m) for m in ("torch", "numpy")))' 2>/dev/null ||
    skip "python3-torch is not installed"
torchjob=$tmp/torchjob alone=''
mkdir "$tmp/alone" && touch "$tmp/alone/fast"
cat >"$torchjob" <<END
#!/bin/sh
export FIRN_TRAIN_LIB="$lib" PYTHONPATH="$PWD/python" OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE=1 # PyTorch keeps caches in TMPDIR:
export TMPDIR="\${TORCHJOB_TMPDIR:-$tmp}"
export GLOO_SOCKET_IFNAME=$([ -z "${FIRND_HOSTS:-}" ] && echo lo || echo eth0)
exec "$python" "$PWD/tests/lib/torchjob.py" "\$@"
END
chmod +x "$torchjob"

torch_alone()
{
    TORCHJOB_TMPDIR=$tmp/alone "$torchjob" "$@" >"$tmp/alone/out" 2>&1 &
    alone=$!
}

torch_same()
{
    [ -z "$alone" ] || wait "$alone" ||
        fail "the run alone failed: $(cat "$tmp/alone/out")"
    alone=''
    grep '^weights ' "$1" >"$tmp/live" || fail "no weights: $(cat "$1")"
    grep '^weights ' "$tmp/alone/out" | cmp -s - "$tmp/live" ||
        fail "the weights differ: $(cat "$tmp/live" "$tmp/alone/out")"
}
