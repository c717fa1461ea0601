#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Jobs whose report is known in every number that does not depend on the machine's speed: synchronizations
# by rule, registrations beside a simulated cache of every size, detours in a mix with direct sends.
set -eu
build=$WAYLAY_BUILD/tests
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH

# --- synchronizations by every rule that the program makes
WAYLAY_DIR=$PWD/rules LD_PRELOAD=$preload "$build/cuda_calls" >rules.txt
"$WAYLAY_BUILD/waylay" report --json rules >rules.json
python3 - <<'PY'
import collections, json, re
report = json.load(open("rules.json"))
want = collections.Counter()
for line in open("rules.txt"):
    count, rest = int(line.split()[0]), line.split(maxsplit=2)[2]
    match = re.search(r"rule=(\w+) cls=(waits|stages) status=0 flags=0", rest)
    if match:
        want[match.groups()] += count
have, folded = collections.Counter(), 0
for site in report["sites"]:
    have[site["rule"], site["class"]] += site["count"]
    folded += site["folded"]
# An explicit wait after a copy that waited, on its stream and from its function, is counted with it.
have["stream_wait", "waits"] += folded
assert have == want, (have - want, want - have)
assert len(want) >= 15, want
totals = report["totals"]
assert totals["synchronizations"] == sum(n for (_, c), n in want.items() if c == "waits") - folded
assert totals["staged"] == sum(n for (_, c), n in want.items() if c == "stages")
print(f"{len(want)} rules: {sum(want.values())} calls as the program says, {folded} folded")
PY

# --- registrations, detours and steps
[ -x "$build/ground_truth" ] || { echo "built without libfabric: rules alone" && exit 0; }
ran=0
for seed in 1 2 3 4 5; do
	for provider in shm 'tcp;ofi_rxm'; do
		status=0
		rm -rf job
		WAYLAY_DIR=$PWD/job LD_PRELOAD=$preload timeout 60 "$build/ground_truth" "$provider" "$seed" \
			>job.txt || status=$?
		[ "$status" -ne 77 ] || continue
		[ "$status" -eq 0 ]
		"$WAYLAY_BUILD/waylay" report --json job >job.json
		python3 - "$provider" "$seed" <<'PY'
import json, sys
want, report = json.load(open("job.txt")), json.load(open("job.json"))

def lru(sequence, entries=None, room=None):
    held, hits = [], 0
    for thing in sequence:
        if thing in held:
            hits += 1
            held.remove(thing)
        held.insert(0, thing)
        while (entries is not None and len(held) > entries) or \
              (room is not None and sum(4096 * pages for _, pages in held) > room):
            held.pop()
    return hits

# The first registration is the job's buffer.
sequence = [("buffer", 16)] + [tuple(one) for one in want["registered"]]
registrations = report["registrations"]
assert registrations["count"] == len(sequence)
assert registrations["repeated"] == len(sequence) - len(set(sequence))
assert registrations["live"] == 0 and registrations["failed"] == 0
cache = registrations["cache"]
for curve, of in (cache["by_entries"], "entries"), (cache["by_bytes"], "room"):
    assert curve
    for capacity, hits, _ in curve:
        assert lru(sequence, **{of: capacity}) == hits, (of, capacity, hits)
        assert lru(sequence, **{of: capacity - 1}) < hits, (of, capacity, hits)

piece = want["piece"]
steps = report["steps"]
assert (steps["source"], steps["range"], steps["count"]) == ("range", "step", want["steps"]), steps
inside = [one for one in report["ranges"] if one["name"] == "step"][0]
assert (inside["synchronizations"], inside["synchronizations_worst"]) == (want["waits"], want["waits_worst"])
for name, count in ("tsend", want["sends"]), ("trecv", want["sends"]):
    have = [one for one in report["transfers"] if one["operation"] == name]
    assert [(one["count"], one["bytes"], one["sizes"]) for one in have] == \
        ([(count, count * piece, [[piece, count, count * piece]])] if count else []), (name, have)
peers = {one["operation"]: one for one in report["peers"]}
assert not want["sends"] or peers["tsend"]["count"] == want["sends"]

detours = report["detours"]
out, back = detours["copied_out"], detours["copied_in"]
assert (out["transfers"], out["bytes"]) == (want["out_transfers"], want["out_transfers"] * piece), (out, want)
assert (out["copies"], out["copy_bytes"]) == (want["out_copies"], want["out_copies"] * piece), (out, want)
assert (back["copies"], back["bytes"]) == (want["in_copies"], want["in_copies"] * piece), (back, want)
assert all(detours[kind]["bytes"] == 0 for kind in ("mapped_out", "mapped_in", "in_provider"))
assert detours["direct"] == "not offered", detours["direct"]
print(f"{sys.argv[1]} {sys.argv[2]}: {len(sequence)} registrations; {want['sends']} sends, of them "
      f"{out['transfers']} detours; {back['copies']} receives copied in: recall 100 %, precision 100 %")
PY
		ran=$((ran + 1))
	done
done
[ "$ran" -gt 0 ] || { echo "no libfabric provider works here" && exit 77; }
