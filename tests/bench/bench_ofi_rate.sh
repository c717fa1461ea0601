#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Message rate of fi_rdm_tagged_bw (8 bytes, two processes, shm): bare, with a hook that only counts, with
# Waylay by either door, and with libfabric's own hooks where the library has them.
#
#     WAYLAY_FABTESTS=DIR [WAYLAY_FABRIC=DIR] tests/bench/bench_ofi_rate.sh
#
# WAYLAY_FABTESTS: the programs of fabtests; WAYLAY_FABRIC: the directory of the libfabric they are to run with
# (the system's by default). Rounds alternate; the median is shown.
set -eu
build=${WAYLAY_BUILD:?the build directory}
fabtests=${WAYLAY_FABTESTS:-}
[ -x "$fabtests/fi_rdm_tagged_bw" ] || {
	echo "needs fabtests: set WAYLAY_FABTESTS to the directory of its programs"
	exit 0
}
[ -z "${WAYLAY_FABRIC:-}" ] || export LD_LIBRARY_PATH="$WAYLAY_FABRIC"
rounds=${WAYLAY_ROUNDS:-7} transfers=${WAYLAY_TRANSFERS:-100000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir door && ln -s "$build/libwaylay.so" door/waylay-fi.so
ln -s "$build/tests/counting/counting-fi.so" door/counting-fi.so

# Each process on a processor of its own, where that can be had: two that poll on one measure the scheduler.
one="" two=""
if command -v taskset >/dev/null && [ "$(nproc)" -ge 2 ]; then
	one="taskset -c 0" two="taskset -c 1"
fi
rate() { # ENVIRONMENT...: transfers a second
	rm -rf out
	# shellcheck disable=SC2086 # words
	env WAYLAY_DIR="$work/out" WAYLAY_MAX_BYTES=1G "$@" timeout 120 $one "$fabtests/fi_rdm_tagged_bw" -p shm -I "$transfers" -S 8 \
		-s 127.0.0.1 >server 2>log &
	server=$!
	sleep 0.3
	# shellcheck disable=SC2086 # words
	env WAYLAY_DIR="$work/out" WAYLAY_MAX_BYTES=1G "$@" timeout 120 $two "$fabtests/fi_rdm_tagged_bw" -p shm -I "$transfers" -S 8 \
		-s 127.0.0.1 127.0.0.1 >client 2>>log || true
	wait "$server" || true
	# the last column is millions of transfers a second
	awk '$1 == "8" && NF >= 6 { printf "%.0f\n", 1e6 * $NF }' client
}
round=0
while [ "$round" -lt "$rounds" ]; do
	rate A=1 >>bare
	rate FI_HOOK=counting FI_PROVIDER_PATH="$work/door" >>counting
	rate LD_PRELOAD="$build/libwaylay.so" >>waylay
	rate FI_HOOK=waylay FI_PROVIDER_PATH="$work/door" >>waylay-hook
	rate FI_HOOK=profile >>profile
	rate FI_HOOK=trace FI_LOG_LEVEL=trace >>trace
	round=$((round + 1))
done
python3 - <<'PY'
import statistics
bare = None
for name, text in (("bare", "bare"), ("counting", "counting only"), ("waylay", "Waylay, preloaded"),
                   ("waylay-hook", "Waylay, by the hook"), ("profile", "FI_HOOK=profile"),
                   ("trace", "FI_HOOK=trace, to a file")):
    rates = [float(line) for line in open(name)]
    if not rates:
        print(f"{text:26s} not there")
        continue
    rate = statistics.median(rates)
    bare = bare or rate
    print(f"{text:26s} {rate / 1e6:8.3f} M/s   {rate / bare:5.0%} of bare   best {max(rates) / 1e6:.3f}")
PY
