# cases.sh - several cases in one shell test, as TAP lines.
#
# To be sourced; the test sets $tmp, a directory of its own, before the first
# case, and prints "1..$n" after the last.
n=0

# try NAME COMMAND...: one case; shows what the command printed when it fails.
try()
{
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$tmp/output" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$tmp/output"
    fi
}
