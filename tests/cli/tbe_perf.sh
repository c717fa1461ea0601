#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay-tbe-perf: right on the CPU and through the simulated driver, in every type, path and optimizer;
# what it prints; its errors; and a recording of it that has every stage as a range and no wait in them.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
[ -e "$build/tests/fakecuda/libcuda.so.1" ] || {
	echo "no simulated driver in $build/tests/fakecuda"
	exit 77
}
small="--tables 3 --rows 61 --batch 23 --calls 2 --warmup 1 --check"

# --- right
for backend in cpu cuda; do
	for case in "--dtype f32 --optimizer adagrad" "--dtype bf16 --stochastic --pooling mean" \
		"--dtype f16 --path small --length 41" "--weighted --index-type i32" "--pooling none" \
		"--distribution zipf --dim 260" "--distribution one:0.9 --length 31"; do
		# shellcheck disable=SC2086
		expect 0 waylay-tbe-perf --backend $backend $small $case
		[ "$(grep -c ' ok$' out)" -eq 5 ] || fail "not every stage is ok: $backend $case"
	done
done
# shellcheck disable=SC2086
expect 0 waylay-tbe-perf --backend cpu $small --forward-only --csv
[ "$(grep -c ',ok$' out)" -eq 2 ] || fail "not two stages forward"
# shellcheck disable=SC2086
expect 0 waylay-tbe-perf --backend cuda $small --hoist
says out "from the backward to the forward"
# shellcheck disable=SC2086
expect 0 waylay-tbe-perf --backend cuda $small --forward-only --baselines --csv
[ "$(cut -d, -f1 out | tr '\n' ' ')" = "stage bounds stream bags forward " ] || fail "not the stages with baselines"
# shellcheck disable=SC2086
expect 2 waylay-tbe-perf --backend cpu $small --baselines
says err "needs a CUDA device"
# shellcheck disable=SC2086
expect 0 waylay-tbe-perf --backend cuda $small --json
python3 - out <<'PY' || fail "not the JSON that was meant"
import json, sys
rows = json.load(open(sys.argv[1]))
assert [r["stage"] for r in rows] == ["bounds", "forward", "transpose", "update", "backward"], rows
lookups = 3 * 23 * 20
by = {r["stage"]: r for r in rows}
assert by["bounds"]["bytes"] == (lookups + 3 * 23 + 1) * 8, by["bounds"]
assert by["forward"]["bytes"] == lookups * 256 + 3 * 23 * 512 + by["bounds"]["bytes"], by["forward"]
assert all(r["check"] == "ok" and r["device_us"] > 0 for r in rows), rows
PY

# --- errors
expect 64 waylay-tbe-perf --rows 1.5
says err "is not a whole number"
expect 64 waylay-tbe-perf --distribution one:2
says err "is no distribution"
expect 64 waylay-tbe-perf --config b
says err "is no problem known here"
one_line 2 "a multiple of 4 columns" waylay-tbe-perf --backend cpu --dim 6
one_line 2 "2^31 - 2 indices" waylay-tbe-perf --backend cpu --tables 1024 --batch 4194304 --length 2
expect 2 env FAKECUDA_MEM_BYTES=4000000 waylay-tbe-perf --backend cuda --tables 2
says err "bytes of device memory for tables"
expect 2 env FAKECUDA_DEVICES=0 waylay-tbe-perf --backend cuda
says err "device"
expect 2 env FAKECUDA_FAIL=cuLaunchKernel:0:700 waylay-tbe-perf --backend cuda --tables 2 --rows 10 --batch 3
says err "launching tbe_"

# --- traced
if ! sanitized; then
	expect 0 waylay run -q --no-export --dir rec -- waylay-tbe-perf --backend cuda --tables 3 --rows 61 --batch 23 \
		--calls 7 --warmup 0
	[ "$(field rec "sorted((q['name'], q['instances']) for q in r['ranges'])")" = \
		"[('tbe-backward', 7), ('tbe-bounds', 7), ('tbe-forward', 14), ('tbe-transpose', 7), ('tbe-update', 7)]" ] ||
		fail "not the ranges of 7 calls: $(field rec "r['ranges']")"
	expect 0 waylay check --range tbe-backward --max-syncs 0 rec
	expect 0 waylay check --range tbe-bounds --max-syncs 0 rec
fi
