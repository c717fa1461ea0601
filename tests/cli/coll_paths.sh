#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The paths of device memory to the network, on the simulated device: staged-naive, staged, and direct
# over a provider of ours that takes device memory and checks what it is given (tests/mock). Results
# are right on all; `waylay report` finds the detours of the staged ones, as large and as long as the
# program says, and none on the direct one. Rates mean nothing here: all is simulated.
set -eu

perf=$WAYLAY_BUILD/waylay-coll-perf
driver=$WAYLAY_BUILD/tests/fakecuda
if [ ! -x "$perf" ] || [ ! -e "$driver/libcuda.so.1" ]; then
	echo "no waylay-coll-perf or no simulated driver in this build"
	exit 77
fi
export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export FI_PROVIDER_PATH="$WAYLAY_BUILD/tests/provider" HMEM_MOCK_REPORT="$PWD/mock"
if ! "$perf" --list-providers | grep -qx shm; then
	echo "libfabric has no shm provider here"
	exit 77
fi
unset MASTER_ADDR MASTER_PORT WORLD_SIZE RANK 2>/dev/null || :

die() {
	echo "FAILED: $*"
	[ ! -f err ] || sed 's/^/  err: /' err
	exit 1
}
run() { # NP PATH ARGUMENT...
	np=$1 path=$2
	shift 2
	case $path in
	direct) set -- --provider hmemmock "$@" ;;
	*) set -- --provider shm "$@" ;;
	esac
	timeout 100 "$perf" --np "$np" --path "$path" --format json "$@" >out 2>err ||
		die "status $? with $np ranks on path $path: $*"
	grep -q '"wrong":0,"avg' out || die "wrong values with $np ranks on path $path: $*"
	grep -q '"simulated":true' out || die "it is not said that this is simulated"
}

# --- right, whatever the path ---------------------------------------------------------------------
for path in staged-naive staged direct; do
	for np in 2 3; do
		run $np "$path" -n 1 -w 0 -b 1000 -e 300000 -i 149500 --chunk 32K all
	done
done
run 2 direct -n 1 -w 0 -b 1004 -e 1004 -d all -o all all_reduce
run 2 staged -n 1 -w 0 -b 1004 -e 1004 -d uint8,float16 -o avg,max reduce_scatter
run 2 direct -n 2 -w 1 -b 40000 -e 40000 --mr-interface dmabuf all
run 4 staged -n 1 -w 0 -b 4000 -e 4000 --window 2 all

# What the provider was given: device memory by address and as DMA-BUFs, nothing that it refused.
python3 - <<'PY' || die "the provider saw something else"
import json
runs = [json.loads(line) for line in open("mock")]
if any(r["refused_registrations"] or r["refused_transfers"] for r in runs):
    raise SystemExit(f"refused: {runs}")
named = [r for r in runs if r["device_registrations"]]
exported = [r for r in runs if r["dmabuf_registrations"]]
if not named and not exported or not exported or any(not r["device_bytes"] for r in runs if r in named + exported):
    raise SystemExit(f"{len(named)} by address, {len(exported)} as DMA-BUFs: {runs}")
PY

# --- what the cache spares ------------------------------------------------------------------------
a_call() { # registrations of the last run
	sed -n 's/.*"out_of_place":{[^}]*"registrations_per_call":\([0-9.]*\).*/\1/p' out
}
run 2 direct -n 50 -b 64K -e 64K --mr-cache off
without=$(a_call)
run 2 direct -n 50 -b 64K -e 64K
with=$(a_call)
[ "$without" = 2.0000 ] || die "$without registrations a call without the cache, not 2"
[ "$with" = 0.0000 ] || die "$with registrations a call with the cache, not 0"

# --- words where the direct path is closed --------------------------------------------------------
status=0
timeout 60 "$perf" --np 2 --path direct --provider 'tcp;ofi_rxm' >out 2>err || status=$?
[ $status = 1 ] || die "status $status, not 1, where no device memory is taken"
grep -q 'direct path is closed' err || die "no word of why the direct path is closed"
grep -q -e '--path staged' err || die "no word of what to do instead"
status=0
FAKECUDA_DEVICES=0 "$perf" --np 2 --path staged >out 2>err || status=$?
[ $status = 1 ] || die "status $status, not 1, without a device"
grep -q -e '--path host needs no device' err || die "no word of the missing device"

# --- what Waylay makes of it ----------------------------------------------------------------------
traced() { # PATH ARGUMENT...
	path=$1
	shift
	rm -rf waylay-out
	"$WAYLAY_BUILD/waylay" run --no-export -- "$perf" --np 2 --path "$path" --format json -O out "$@" \
		>said 2>err || die "status $? traced on path $path"
	"$WAYLAY_BUILD/waylay" report --json waylay-out >report.json || die "no report"
}
agrees() { # PATH
	python3 - "$1" <<'PY'
import json, sys
path = sys.argv[1]
detours = json.load(open("report.json"))["detours"]
moved = json.load(open("out"))["all_ranks"]
kinds = ("copied_out", "copied_in")
found = sum(detours[k]["copy_bytes"] for k in kinds), sum(detours[k]["held_ns"] for k in kinds)
told = moved["down_bytes"] + moved["up_bytes"], moved["down_ns"] + moved["up_ns"]
other = sum(detours[k]["bytes"] for k in detours if isinstance(detours[k], dict) and k not in kinds)
if path == "direct":
    if any(found) or any(told) or other or detours["direct"] != "used":
        raise SystemExit(f"direct: found {found}, {other}, {detours['direct']}: {detours['why']}")
    print("direct: no detour;", detours["why"])
    raise SystemExit(0)
apart = [abs(f - t) / t for f, t in zip(found, told)]
print(f"{path}: {found[0]} bytes and {found[1] / 1e6:.3f} ms found, "
      f"the program says {told[0]} and {told[1] / 1e6:.3f} ({apart[1]:.2%} apart); simulated")
raise SystemExit(0 if found[0] and max(apart) <= 0.02 and not other else 1)
PY
}
for path in staged-naive staged; do
	tries=1
	traced "$path" --provider shm -n 4 -w 1 -b 16M -e 16M
	# Held times are those of this machine: a busy one may stop the program between two clocks.
	until agrees "$path"; do
		[ $tries -lt 3 ] || die "$path: the report and the program differ by more than 2 %"
		tries=$((tries + 1))
		traced "$path" --provider shm -n 4 -w 1 -b 16M -e 16M
	done
done
traced direct --provider hmemmock -n 4 -w 1 -b 4M -e 4M
agrees direct || die "a detour on the direct path"
echo ok
