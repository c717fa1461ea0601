#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A program with a statically linked CUDA runtime is traced like any other: no shared object of it can be
# interposed, only the driver.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || {
	echo "needs nvcc"
	exit 77
}
"$nvcc" -cudart static -arch=native -o static_cudart "$WAYLAY_SOURCE/tests/gpu/static_cudart.cu"
record static ./static_cudart
cat plain.log
[ "$(cat plain.log)" = "13.0 13.0" ]
"$WAYLAY_BUILD/waylay" report static
"$WAYLAY_BUILD/waylay" report --json static >report.json
python3 - <<'PY'
import json
report = json.load(open("report.json"))
by_rule = {}
for site in report["sites"]:
    by_rule[site["rule"]] = by_rule.get(site["rule"], 0) + site["count"]
copies = {(c["from"], c["to"], c["class"]): c["count"] for c in report["copies"]}
assert report["totals"]["launches"] == 13, report["totals"]
assert by_rule.get("stream_wait") == 7, by_rule
assert by_rule.get("context_wait") == 1, by_rule
assert by_rule.get("async_to_pageable") == 5, by_rule
assert copies.get(("device", "pinned", "device_only")) == 3, copies
places = {site["function"] for site in report["sites"]}
assert places == {"main"}, places
print("static cudart:", by_rule, copies)
PY
