#!/bin/sh
# 162-profile-lists-and-shows.sh - the profiles that come with firn.
. tests/lib/e2e.sh

run 0 profile list
out_has "pollux/bert"
grep -q '^synthetic/[^ ]* *synthetic ' "$tmp/out" || fail "not marked"
grep '^pollux/' "$tmp/out" | grep -q synthetic && fail "measured is marked"
cp "$tmp/out" "$tmp/builtin"
run 0 profile list --profiles profiles
cmp -s "$tmp/out" "$tmp/builtin" || fail "the shipped files differ"
run 0 profile list -o json
out_has '"synthetic":true'
out_has '"fit_mean_ape_pct":'

run 0 profile show pollux/bert
out_has "source pollux"
cmp -s "$tmp/out" profiles/pollux/bert.txt || fail "not the file's text"
run 1 profile show no-such-app
err_has "no-such-app"
run 2 profile show
run 1 profile list --profiles "$tmp"
exit 0
