#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's sampler by two nonzero calls: exactly two waits a step, each at its nonzero's line; the form
# with fixed shapes waits not at all; the gate tells them apart.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

program=$WAYLAY_SOURCE/kernels/examples/sampler_torch.py
record naive python3 "$program" --form naive --steps 20
record static python3 "$program" --form static --steps 20
"$WAYLAY_BUILD/waylay" report --json naive >naive.json
"$WAYLAY_BUILD/waylay" report naive
"$WAYLAY_BUILD/waylay" report static
python3 - "$program" <<'PY'
import json, sys
report = json.load(open("naive.json"))
step = next(r for r in report["ranges"] if r["name"] == "step")
source = open(sys.argv[1]).read().splitlines()
assert step["instances"] == 20, step
assert step["synchronizations"] == 40 and step["synchronizations_worst"] == 2, step
# Warm-up calls wait at these lines too, and the first use of nonzero's code waits once more.
warmup = next(r for r in report["ranges"] if r["name"] == "warmup")
sites = [s for s in report["sites"] if s["class"] == "waits" and s["file"] and s["file"].endswith("sampler_torch.py")
         and "nonzero" in source[s["line"] - 1] and "cuStreamSynchronize" in s["calls"]]
assert [s["count"] for s in sites] == [20 + warmup["instances"]] * 2, sites
print("naive: 40 waits in 20 steps, at lines", sorted(s["line"] for s in sites))
PY
status=0
"$WAYLAY_BUILD/waylay" check --range step --max-syncs 0 naive || status=$?
[ "$status" -eq 1 ]
"$WAYLAY_BUILD/waylay" check --range step --max-syncs 0 static
