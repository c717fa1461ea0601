#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The line that a user looks for, where the driver is called elsewhere: clip_grad_norm_, autograd's threads with and
# without Python frames, and the thread that pins a DataLoader's batches, which has no line of the user's.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

program=$WAYLAY_SOURCE/tests/gpu/torch_lines.py
"$WAYLAY_BUILD/waylay" run --no-export --dir "$PWD/lines" -- python3 "$program" >log 2>&1 || {
	cat log
	exit 1
}
"$WAYLAY_BUILD/waylay" export -f jsonl -o lines.jsonl lines 2>>log
python3 - "$program" <<'PY'
import collections, json, sys
lines = {}
for number, text in enumerate(open(sys.argv[1]), 1):
    if "# LINE " in text:
        lines[text.rsplit("# LINE ", 1)[1].strip()] = number
ranges, waits, pinned, sites, entered = {}, [], [], collections.defaultdict(list), []
for text in open("lines.jsonl"):
    row = json.loads(text)
    if row["table"] == "stacks":
        if row["kind"] == "python":
            sites[(row["process"], row["stack"])].append(row)
    elif row["table"] == "events":
        if row["type"] == "nvtx_push":
            entered.append(row)
        elif row["type"] == "nvtx_pop":
            push = entered.pop()
            if push["name"] in lines:
                ranges[push["name"]] = (row["process"], push["begin_ns"], row["end_ns"])
        elif row.get("class") == "waits":
            waits.append(row)
        elif row["name"].startswith(("cuMemHostAlloc", "cuMemHostRegister")):
            pinned.append(row)
assert ranges.keys() == lines.keys(), (ranges, lines)
for name, line in lines.items():
    process, begin, end = ranges[name]
    inside = [w for w in waits if w["process"] == process and begin <= w["begin_ns"] <= end]
    at = collections.Counter(w["site"].rsplit("/", 1)[-1].split(" ")[0] for w in inside)
    shown = collections.Counter(f["awaited"] for w in inside for f in sites[(process, w["stack"])] if f["site"])
    print(f"{name}: {dict(at)}, of a thread that waits for it: {shown[True]}")
    assert at[f"torch_lines.py:{line}"] >= (7 if name != "total" else 1), (name, line, at)
    assert len(at) == 1, (name, at)
    assert bool(shown[True]) == name.startswith("engine"), (name, shown)
by_loader = [p for p in pinned if "_utils/pin_memory.py:" in p.get("site", "")]
print("pinned for the loader:", {(p["name"], p["site"].rsplit("/torch/", 1)[-1]) for p in by_loader}, "of", len(pinned))
assert by_loader, [p.get("site") for p in pinned]
PY
