#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay-coll-perf's studies: a training step's collectives (buckets as the stated model has them, right
# values, a split that adds up), the scaling study and its verdict, registration costs by interface.
set -eu

perf=$WAYLAY_BUILD/waylay-coll-perf
driver=$WAYLAY_BUILD/tests/fakecuda
if [ ! -x "$perf" ]; then
	echo "no waylay-coll-perf in this build (it needs libfabric's headers: libfabric-dev)"
	exit 77
fi
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

# --- a training step ------------------------------------------------------------------------------
for workload in ddp zero2; do
	"$perf" --np 3 --workload $workload --model 3x64 --bucket 256K -d bfloat16 -n 2 -w 1 --format json \
		>out.json 2>err || die "status $? from $workload"
	python3 - $workload <<'PY' || die "$workload is not what it should be"
import json, sys
out = json.load(open("out.json"))
step = out["step"]
h, layers, esize, ranks = 64, 3, 2, 3
tensors = [2 * h]
for _ in range(layers):
    tensors += [h, 4 * h * h, 4 * h, 4 * h * h, 2 * h, h, h * h, 3 * h, 3 * h * h, 2 * h]
tensors += [1024 * h, 50304 * h]
buckets, open_, limit = [], 0, (1 << 20) // esize
for t in tensors:
    if open_ and open_ + t > limit:
        buckets.append(open_)
        open_, limit = 0, (256 << 10) // esize
    open_ += t
buckets.append(open_)
unit = ranks * 64 // esize
padded = [-(-b // unit) * unit * esize for b in buckets]
want = (sys.argv[1], sum(tensors), len(buckets), max(padded), sum(padded), 0)
have = (step["workload"], step["parameters"], step["buckets"], step["largest_bytes"], step["bytes"], step["wrong"])
if want != have:
    raise SystemExit(f"wanted {want}, have {have}")
if abs(step["gradients_us"] + step["parameters_us"] - step["step_us"]) > 1 or step["gradients_us"] <= 0:
    raise SystemExit(f"the split does not add up: {step}")
if (sys.argv[1] == "zero2") != (step["parameters_us"] > 50):
    raise SystemExit(f"parameters took {step['parameters_us']} us")
PY
done
"$perf" --np 2 --workload ddp --model 1x64 -n 1 -w 0 --format csv >out.csv 2>err || die "status $? for CSV"
grep -q '^ddp,1,64,' out.csv || die "no line of CSV for the step"

# --- the scaling study ----------------------------------------------------------------------------
"$perf" --np 3 --scaling -b 1K -e 64K -f 64 -n 3 -w 1 -O study.json --format json all_reduce 2>err ||
	die "status $? from the study"
python3 - <<'PY' || die "the study is not what it should be"
import json
rows = json.load(open("study.json"))["scaling"]
if [(r["ranks"], r["size_bytes"]) for r in rows] != [(2, 1024), (2, 65536), (3, 1024), (3, 65536)]:
    raise SystemExit(f"rows {rows}")
for r in rows:
    parts = [r[k] for k in ("wire", "reducing", "copying", "registering", "latency")]
    if abs(sum(parts) - 1) > 0.001 or min(parts) < 0 or not r["limit"]:
        raise SystemExit(f"parts do not add up: {r}")
    if r["size_bytes"] == 1024 and r["limit"] != "latency":
        raise SystemExit(f"the smallest size is limited by its latency: {r}")
PY
"$perf" --np 2 --scaling -b 1K -e 1K -n 3 >out 2>err || die "status $? from the study as text"
grep -q '^all_reduce *1 KiB *2 .*latency: wire' out || die "no verdict in words"

# --- registrations by interface -------------------------------------------------------------------
if [ -e "$driver/libcuda.so.1" ] && [ -e "$WAYLAY_BUILD/tests/provider/hmemmock-fi.so" ]; then
	LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FI_PROVIDER_PATH="$WAYLAY_BUILD/tests/provider" \
		"$perf" --np 2 --path direct --provider hmemmock --reg-table -b 4K -e 16K -f 4 -n 1 --format csv \
		>out.csv 2>err || die "status $? from the registration table"
	[ "$(grep -cE '^(host|cuda|dmabuf),(4096|16384),' out.csv)" = 6 ] || die "not 3 interfaces of 2 sizes"
fi
refused() { # PATTERN ARGUMENT...
	pattern=$1
	shift
	status=0
	"$perf" "$@" >out 2>err || status=$?
	[ $status = 64 ] || die "status $status, not 64: $*"
	grep -q -e "$pattern" err || die "no '$pattern' for: $*"
}
refused "'12' is not LAYERSxWIDTH" --model 12
refused "'fsdp' is unknown" --workload fsdp
echo ok
