# SPDX-License-Identifier: Apache-2.0
"""Holds the device activity of a recording (waylay export -f jsonl) against the host's calls: on each
stream the calls that give work and the activity they caused, by correlation, are the same in the same order,
and nothing began before its call did.

    activity.py FILE [--least-matched FRACTION]
"""
import collections
import json
import sys

calls, activity, streams, strange = [], collections.defaultdict(list), {}, 0
for line in open(sys.argv[1]):
    if '"table":"events"' not in line:
        continue
    event = json.loads(line)
    args = event["args"]
    kind = event["type"]
    if kind == "gpu_stream":
        streams[(args["context"], args["number"])] = args["stream"]
    elif kind in ("gpu_kernel", "gpu_copy", "gpu_memset"):
        activity[(args["context"], args["stream"])].append((args["correlation"], event))
    elif kind in ("cuda_launch", "cuda_copy", "cuda_memset") or (kind == "cuda_graph" and "Launch" in event["name"]):
        if event.get("status", 0) == 0 and not args.get("captured"):
            if event["name"] not in ("cuLaunchHostFunc", "cuLaunchHostFunc_ptsz", "cuStreamAddCallback"):
                calls.append(event)
calls.sort(key=lambda event: event["begin_ns"])


def key(event):
    args = event["args"]
    if event["type"] == "cuda_launch":
        return "kernel", args.get("kernel")
    if event["type"] == "gpu_kernel":
        return "kernel", args.get("name")
    return event["type"].split("_")[1], args.get("bytes")


matched = total = late = early = 0
unmatched = collections.Counter()
for stream, records in sorted(activity.items()):
    handle = streams.get(stream)
    given = collections.deque(e for e in calls if e["args"].get("stream", "0x0") == handle)
    caused = {}
    for correlation, event in records:
        caused.setdefault(correlation, []).append(event)
    for correlation in sorted(caused):
        total += 1
        first = min(caused[correlation], key=lambda e: e["begin_ns"])
        graph = first["args"].get("graph")
        while given and not (given[0]["type"] == "cuda_graph" if graph else key(given[0]) == key(first)):
            unmatched[(given[0]["type"], given[0]["name"], str(key(given[0]))[:60])] += 1
            given.popleft()
        if not given:
            continue
        call = given.popleft()
        matched += 1
        early += first["begin_ns"] < call["begin_ns"]
        late += first["begin_ns"] > call["end_ns"]
print(f"{total} activities of calls on {len(activity)} streams: {matched} found their call in order, "
      f"{early} began before it, {late} after its return; calls without activity: {sum(unmatched.values())}")
for what, count in unmatched.most_common(6):
    print("   ", count, *what)
least = float(sys.argv[3]) if len(sys.argv) > 3 else 0.99
assert matched >= least * total, (matched, total)
assert early <= 0.001 * total, (early, total)
