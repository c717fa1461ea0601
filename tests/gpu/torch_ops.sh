#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What PyTorch's own debug mode warns of and what Waylay counts, operation by operation: our waits are at least
# its warnings everywhere, and what it misses is found with its rule and the line.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

"$WAYLAY_BUILD/waylay" run --no-export --dir "$PWD/ops" -- python3 "$WAYLAY_SOURCE/tests/gpu/torch_ops.py" >log 2>&1 || {
	cat log
	exit 1
}
grep failed log || true
"$WAYLAY_BUILD/waylay" report --json ops >report.json
python3 - <<'PY'
import json
warned = json.load(open("warned.json"))
ranges = {r["name"][3:]: r for r in json.load(open("report.json"))["ranges"] if r["name"].startswith("op ")}
# What torch's mode does not warn of: (class, rule).
MISSED = {
    "event.synchronize()": ("waits", "event_wait"),
    "cuda.synchronize()": ("waits", "context_wait"),
    "nccl barrier": ("waits", "legacy_wait"),
    "pageable.copy_(x,non_blocking)": ("waits", "async_to_pageable"),
    "pageable 16MB .to(cuda,non_blocking)": ("stages", "async_from_pageable"),
    "pageable 16KB .to(cuda,nb)": ("stages", "async_from_pageable"),
    "pinned[::2] .to(cuda,nb)": ("stages", "async_from_pageable"),
}
fewer, more, unfound = [], [], []
print(f"{'operation':42} torch  waits staged")
for name, warns in warned.items():
    r = ranges.get(name)
    assert r, f"no range of {name}"
    waits, staged = r["synchronizations"] / r["instances"], r["staged"] / r["instances"]
    print(f"{name:42} {warns:5.1f} {waits:6.1f} {staged:6.1f}")
    if waits < warns:
        fewer.append((name, warns, waits))
    if waits > warns:
        more.append(name)
    if name in MISSED:
        places = [p for p in r["places"] if (p["class"], p["rule"]) == MISSED[name] and "torch_ops.py:" in p["place"] + p.get("called_from", "")]
        print("    missed by torch:", [(p["class"], p["rule"], p["place"], p.get("called_from")) for p in places])
        if not places:
            unfound.append((name, r["places"]))
print(len(warned), "operations; more waits than torch warns of:", more)
assert not fewer, fewer
assert not unfound, unfound
assert len(warned) >= 70
PY
