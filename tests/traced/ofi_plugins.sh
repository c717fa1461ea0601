#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Network plugins as collective libraries load theirs: libfabric comes in with an object that the host opens for
# itself alone, and calls are made in a thread of it. The trace holds exactly what the host says it did.
set -eu
. "$WAYLAY_SOURCE/tests/traced/preload.inc"
tests=$WAYLAY_BUILD/tests
ran=0
for provider in shm 'tcp;ofi_rxm' sockets; do
	for shape in wrapper net; do
		status=0
		LD_PRELOAD=$runtime timeout 60 "$tests/ofi_host" $shape "$tests/ofi_shapes.so" "$provider" >plain || status=$?
		if [ "$status" -eq 77 ]; then
			cat plain
			continue
		fi
		[ "$status" -eq 0 ]
		rm -rf out
		WAYLAY_DIR=$PWD/out LD_PRELOAD=$preload timeout 60 "$tests/ofi_host" $shape "$tests/ofi_shapes.so" "$provider" >traced
		cmp plain traced
		"$WAYLAY_BUILD/waylay" report --json out >report.json
		python3 - "$provider $shape" <<'PY'
import json, sys
report = json.load(open("report.json"))
want = {name: int(count) for name, count in (line.split() for line in open("plain"))}
have = {t["operation"]: t["count"] for t in report["transfers"]}
have["completion"] = report["totals"]["completions"]
have["registration"] = report["registrations"]["count"]
have["closed"] = report["registrations"]["count"] - report["registrations"]["live"]
unfinished = sum(t["unfinished"] + t["failed"] for t in report["transfers"])
if have != want or unfinished or not report["complete"]:
    sys.exit(f"{sys.argv[1]}: wanted {want}, have {have}, unfinished {unfinished}")
print(sys.argv[1], "agrees:", have)
PY
		ran=$((ran + 1))
	done
done
[ "$ran" -gt 0 ] || {
	echo "no libfabric provider works here"
	exit 77
}
