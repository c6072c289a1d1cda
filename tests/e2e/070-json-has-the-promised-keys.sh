#!/bin/sh
# 070-json-has-the-promised-keys.sh - and is JSON.
. tests/lib/e2e.sh
trace "$tmp/jobs.csv" 50
run 0 sim --trace "$tmp/jobs.csv" --cluster 4x8:v100 --policy fifo,srtf -o json
for key in trace policy cluster seed restart_s jobs unfinished rejected \
    bad_rows ignored_rows unsorted_rows nominal_jobs jct_mean_s jct_p50_s \
    jct_p90_s jct_p99_s jct_max_s jct_by_gpus queue_mean_s queue_p50_s \
    queue_p99_s makespan_s gpu_alloc_ratio gpu_util_ratio fragmentation \
    restarts failures rho_mean rho_p50 rho_p99 rho_max unfair_share \
    gpu_s_given gpu_s_useful gpu_s_overhead gpu_s_lost rounds events steps \
    cpu_s; do
    [ "$(grep -c "\"$key\":" "$tmp/out")" -eq 2 ] || fail "no $key in each"
done
out_has '"class":"2-4"'
out_has '"jct_mean_s":null'
command -v python3 >/dev/null 2>&1 || exit 0
for args in "policies" "cluster list" "cluster show sia"; do
    # shellcheck disable=SC2086
    "$FIRN" $args -o json | python3 -m json.tool >/dev/null ||
        fail "firn $args -o json is no JSON"
done
python3 - "$tmp/out" <<'T' || fail "not the promised JSON"
import json, sys
results = json.load(open(sys.argv[1]))["results"]
assert [r["policy"] for r in results] == ["fifo", "srtf"]
for r in results:
    assert r["jobs"] == 50 == sum(c["jobs"] for c in r["jct_by_gpus"])
    assert [c["class"] for c in r["jct_by_gpus"]] == ["1", "2-4", "5-8", "9+"]
    parts = r["gpu_s_useful"] + r["gpu_s_overhead"] + r["gpu_s_lost"]
    assert abs(r["gpu_s_given"] - parts) <= 1e-9 * parts
T
exit 0
