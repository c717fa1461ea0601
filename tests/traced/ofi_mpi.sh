#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Open MPI over libfabric under `mpirun waylay run` and under a bare preload: its output is unchanged, both
# ranks are recorded under their numbers, every post is matched, and what one rank sends the other receives.
set -eu

for tool in mpirun.openmpi mpicc.openmpi; do
	command -v $tool >/dev/null || {
		echo "needs Open MPI ($tool)"
		exit 77
	}
done
mpicc.openmpi -o job "$WAYLAY_SOURCE/tests/traced/mpi_allreduce.c"
mpi() { # PROVIDER COMMAND...
	provider=$1
	shift
	timeout 90 mpirun.openmpi -n 2 --oversubscribe --mca pml cm --mca mtl ofi \
		--mca mtl_ofi_provider_include "$provider" "$@"
}
check() { # DIR WHAT
	"$WAYLAY_BUILD/waylay" report --json "$1" >report.json
	python3 - "$2" <<'PY'
import json, sys
report = json.load(open("report.json"))
ops = {t["operation"]: t for t in report["transfers"]}
assert sorted(p["rank"] for p in report["processes"]) == [0, 1], report["processes"]
assert report["complete"], report["processes"]
send, receive = ops["tsend"], ops["trecv"]
assert send["count"] == receive["count"] >= 26 and send["bytes"] == receive["bytes"], ops
assert send["unfinished"] == receive["unfinished"] == send["failed"] == receive["failed"] == 0, ops
print(sys.argv[1], send["count"], "sends and receives,", report["totals"]["completions"], "completions")
PY
}
ran=0
for provider in tcp 'tcp;ofi_rxm' sockets; do
	mpi "$provider" ./job >plain 2>plain.err || {
		echo "Open MPI does not run over $provider here: $(tail -n 1 plain.err)"
		continue
	}
	[ "$(wc -l <plain)" -eq 13 ]
	rm -rf run preload
	mpi "$provider" "$WAYLAY_BUILD/waylay" run --dir run -- ./job >traced
	cmp plain traced
	check run "$provider, waylay run:"
	mpi "$provider" -x "WAYLAY_DIR=$PWD/preload" -x "LD_PRELOAD=$WAYLAY_BUILD/libwaylay.so" ./job >traced
	cmp plain traced
	check preload "$provider, preload:"
	ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || {
	echo "Open MPI runs over no libfabric provider here"
	exit 77
}
