#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Open MPI on a libfabric that has the profile hook (1.19 and newer), which counts below Waylay in the same
# run: sends, receives and completions must be equal, by either door, and the job's output unchanged.
#
#     tests/fabtests/mpi_counts.sh BUILD_DIR LIBFABRIC_DIR [PROVIDER ...]
set -eu
build=$(cd "${1:?usage: tests/fabtests/mpi_counts.sh BUILD_DIR LIBFABRIC_DIR [PROVIDER ...]}" && pwd)
library=$(cd "${2:?usage: tests/fabtests/mpi_counts.sh BUILD_DIR LIBFABRIC_DIR [PROVIDER ...]}" && pwd)
shift 2
[ $# -gt 0 ] || set -- tcp 'tcp;ofi_rxm' sockets 'udp;ofi_rxd'
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir door && ln -s "$build/libwaylay.so" door/waylay-fi.so
mpicc.openmpi -o job "$source/tests/traced/mpi_allreduce.c"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpi() { # PROVIDER OPTION...
	timeout 120 mpirun.openmpi -n 2 --oversubscribe --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "$@" \
		-x "LD_LIBRARY_PATH=$library" ./job
}
status=0
for provider; do
	mpi "$provider" >plain 2>log || {
		echo "$provider: Open MPI does not run over it here"
		continue
	}
	for door in preload hook; do
		if [ "$door" = hook ]; then
			hook="profile;waylay" loaded=
		else
			hook=profile loaded=$build/libwaylay.so
		fi
		rm -rf out
		mpi "$provider" -x "WAYLAY_DIR=$work/out" -x "FI_HOOK=$hook" -x "FI_PROVIDER_PATH=$work/door" \
			-x FI_LOG_LEVEL=trace -x FI_LOG_SUBSYS=core -x "LD_PRELOAD=$loaded" >traced 2>profile || status=1
		cmp plain traced || status=1
		"$build/waylay" report --json out >report.json
		python3 - "$provider" "$door" <<'PY' || status=1
import json, re, sys
report = json.load(open("report.json"))
have = {"sends": 0, "receives": 0}
for t in report["transfers"]:
    have["sends" if "send" in t["operation"] else "receives"] += t["count"]
have["completions"] = report["totals"]["completions"]
have["registrations"] = report["registrations"]["count"]
want = {"sends": 0, "receives": 0, "completions": 0, "registrations": 0}
for line in open("profile", errors="replace"):
    # A layered provider's objects are counted, and those of the one below: the former are the job's.
    row = re.search(r"::([^:]+):core:prof_\w+\(\):\d+<trace>\s+(.+?)\s{2,}Any\s+(\d+)", line)
    if not row or row[1].split(";")[-1] != sys.argv[1].split(";")[-1]:
        continue
    name, count = row[2].strip(), int(row[3])
    if name == "send": # the sum of all kinds
        want["sends"] += count
    elif name in ("recv", "fi_trecv"):
        want["receives"] += count
    elif name == "cq read":
        want["completions"] += count
    elif name.startswith("mr"):
        want["registrations"] += count
same = have == want
print(f"{sys.argv[1]:12s} {sys.argv[2]:8s} {'equal' if same else 'DIFFERENT'}: Waylay {have}, profile {want}")
sys.exit(not same)
PY
	done
done
exit $status
