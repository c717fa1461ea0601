#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# --ofi-layers: what a layered provider asks of the one under it is recorded too, marked, on objects of its
# own, by either door; what the job asked for is recorded and reported as without it.
set -eu
tests=$WAYLAY_BUILD/tests
trace() { # OPTION... -- COMMAND...: its output unchanged; report.json and events, one a line
	rm -rf out
	WAYLAY_DIR=$PWD/out timeout 90 "$WAYLAY_BUILD/waylay" run --quiet --no-export "$@" >traced
	cmp plain traced
	"$WAYLAY_BUILD/waylay" report --json out >report.json
	"$tests/spool_dump" out/*.wspool >events
}
cat >check.py <<'PY'
import json, re, sys
LAYERED = sys.argv[2] == "layered"
report = json.load(open("report.json"))
want = {}
for line in open("plain"):
    name, *numbers = line.split()
    want[name] = int(numbers[0])
have = {t["operation"]: t["count"] for t in report["transfers"]}
have["completion"] = report["totals"]["completions"]
have["registration"] = report["registrations"]["count"]
have["closed"] = report["registrations"]["count"] - report["registrations"]["live"]
unfinished = sum(t["unfinished"] + t["failed"] for t in report["transfers"])
if have != want or unfinished or not report["complete"]:
    sys.exit(f"{sys.argv[1:]}: reported: wanted {want}, have {have}; unfinished {unfinished}")
INNER = 4  # WL_FLAG_INNER_LAYER
count, objects = {False: {}, True: {}}, {False: set(), True: set()}
for line in open("events"):
    event = re.match(r"event \d+ (ofi_\w+) .*\bflags=([0-9a-fx]+)(?:\s|$)", line)
    if not event:
        continue
    inner = bool(int(event[2].split("flags=")[-1], 16) & INNER)
    count[inner][event[1]] = count[inner].get(event[1], 0) + 1
    opened = re.search(r" object=([0-9a-f]+) ", line) if event[1] == "ofi_open" else None
    if opened and int(opened[1], 16):
        objects[inner].add(opened[1])
posts = sum(n for name, n in want.items() if name in ("send", "recv", "tsend", "trecv", "write"))
if count[False].get("ofi_post") != posts or count[False].get("ofi_completion") != want["completion"]:
    sys.exit(f"{sys.argv[1:]}: the job's own records: {count[False]}, wanted {posts} posts, {want}")
if LAYERED:
    missing = [name for name in ("ofi_open", "ofi_post", "ofi_completion") if not count[True].get(name)]
    if missing or objects[True] & objects[False] or len(objects[True]) < 3:
        sys.exit(f"{sys.argv[1:]}: of the layer below: {count[True]}, objects {objects}")
elif objects[True] or count[True]:
    sys.exit(f"{sys.argv[1:]}: marked as a layer's: {count[True]}")
print(*sys.argv[1:], "job:", count[False], "below:", count[True])
PY

ran=0
for provider in 'tcp;ofi_rxm' 'udp;ofi_rxd'; do
	status=0
	timeout 60 "$tests/ofi_ops" "$provider" >plain || status=$?
	if [ "$status" -eq 77 ]; then
		echo "$provider: $(cat plain)"
		continue
	fi
	[ "$status" -eq 0 ]
	ran=$((ran + 1))
	trace -- "$tests/ofi_ops" "$provider"
	python3 check.py "$provider" plain
	trace --ofi-layers -- "$tests/ofi_ops" "$provider"
	python3 check.py "$provider" layered
	trace --ofi-layers --ofi-door -- "$tests/ofi_ops" "$provider"
	python3 check.py "$provider, both doors" layered
	trace --ofi-layers --ofi-door -- "$tests/ofi_deepbind" "$tests/ofi_plugin.so" "$provider"
	python3 check.py "$provider, second door" layered
done
[ "$ran" -gt 0 ] || {
	echo "no layered libfabric provider works here"
	exit 77
}
