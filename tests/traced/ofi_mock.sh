#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Providers of our own (tests/mock) that do what real ones do elsewhere: device memory and DMA-BUF, tables that
# are freed, rewritten and exchanged. The program's output is unchanged, by either door, and the trace holds
# what it did.
set -eu
. "$WAYLAY_SOURCE/tests/traced/preload.inc"
tests=$WAYLAY_BUILD/tests
export FI_PROVIDER_PATH="$tests/provider" FAKECUDA_LAUNCH_NS=0
libraries=$tests/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

agrees() { # WHAT
	"$WAYLAY_BUILD/waylay" report --json out >report.json
	"$tests/spool_dump" out/*.wspool >events
	python3 - "$1" <<'PY'
import json, re, sys
report = json.load(open("report.json"))
want = {name: int(count) for name, count in (line.split() for line in open("plain"))}
have = {t["operation"]: t["count"] for t in report["transfers"]}
have["completion"] = report["totals"]["completions"]
have["registration"] = report["registrations"]["count"]
have["closed"] = report["registrations"]["count"] - report["registrations"]["live"]
refused = want.pop("refused", 0)
wanted = {k: v for k, v in want.items() if not k.startswith("device_")}
if have != wanted or not report["complete"]:
    sys.exit(f"{sys.argv[1]}: wanted {wanted}, have {have}")
posts = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in open("events") if " ofi_post " in line]
regs = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in open("events") if " ofi_mr_reg " in line]
failed = sum(r["status"] != "0" for r in regs) + sum(p["status"] != "0" for p in posts)
if failed != refused:
    sys.exit(f"{sys.argv[1]}: {refused} calls were refused, the trace has {failed}")
if "hmem" in sys.argv[1]:
    device = [p for p in posts if p["status"] == "0" and p["iface"] == "cuda"]
    exported = [r for r in regs if r["status"] == "0" and r["fd"] != "-1"]
    good = [r for r in regs if r["status"] == "0"]
    if len(device) != 14 or len(exported) != 1 or sorted(r["iface"] for r in good) != ["cuda", "cuda", "system"]:
        sys.exit(f"{sys.argv[1]}: {len(device)} transfers of device memory, registrations {good}")
    why = report["detours"]["why"]
    if not re.search(r"goes directly: hmemmock took 2 registrations of it \(1 by DMA-BUF\); it refused \d", why):
        sys.exit(f"{sys.argv[1]}: {why}")
print(sys.argv[1], "agrees:", have)
PY
}
run() { # NAME PROGRAM...
	name=$1
	shift
	status=0
	LD_PRELOAD=$runtime LD_LIBRARY_PATH=$libraries timeout 60 "$@" >plain 2>said || status=$?
	if [ "$status" -eq 77 ]; then
		echo "$name: $(cat plain)"
		return
	fi
	[ "$status" -eq 0 ] || { cat said && exit 1; }
	rm -rf out
	WAYLAY_DIR=$PWD/out LD_PRELOAD=$preload LD_LIBRARY_PATH=$libraries timeout 60 "$@" >traced 2>said || { cat said && exit 1; }
	cmp plain traced
	agrees "$name"
	rm -rf out door
	mkdir door && ln -s "$WAYLAY_BUILD/libwaylay.so" door/waylay-fi.so && ln -s "$tests"/provider/*-fi.so door/
	WAYLAY_DIR=$PWD/out FI_HOOK=waylay FI_PROVIDER_PATH=$PWD/door LD_PRELOAD=$runtime LD_LIBRARY_PATH=$libraries \
		timeout 60 "$@" >traced 2>said || { cat said && exit 1; }
	cmp plain traced
	agrees "$name, by the hook alone"
	ran=$((ran + 1))
}
ran=0
run hmem "$tests/mock_hmem"
[ ! -e "$tests/mock_self" ] || {
	run verbs "$tests/mock_self" verbsmock
	run efa "$tests/mock_self" efamock
}
[ "$ran" -gt 0 ] || {
	echo "libfabric opens no provider of ours here"
	exit 77
}
