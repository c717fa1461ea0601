#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A recording of 100 million events (WAYLAY_TEST_EVENTS): how long it takes to open, with its pages in memory
# and without, to walk over, to pack and to unpack; and that it comes back bit for bit. Needs 15 GB of disk.
set -eu
build=$WAYLAY_BUILD
events=${WAYLAY_TEST_EVENTS:-100000000}
large=$build/bench/large_spool
unset WAYLAY_BUILD WAYLAY_SOURCE
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')
if [ "$free" -lt $((events / 6000)) ]; then
	echo "  only $free MB free here; set TMPDIR to where there is room"
	exit 0
fi
mkdir rec
file=$("$large" fill "$PWD/rec" "$events")
bytes=$(stat -c %s "$file")
echo "  $events events in $((bytes >> 20)) MiB"
sync "$file" # written back, so that the next times are of reading alone
echo "  opened in $("$large" open "$file") ms, its pages in memory"
python3 -c 'import os, sys; os.posix_fadvise(os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)' "$file"
echo "  opened in $("$large" open "$file") ms, from disk"
"$large" walk "$file" | awk '{ printf "  walked over: %d events, %.1f M a second\n", $1, $2 }'
timed() { # NAME BYTES COMMAND...: MB/s elapsed and of processor time
	name=$1 size=$2
	shift 2
	python3 - "$name" "$size" "$@" <<'EOF'
import resource, subprocess, sys, time
name, size = sys.argv[1], int(sys.argv[2])
start = time.monotonic()
subprocess.run(sys.argv[3:], check=True, stderr=subprocess.DEVNULL)
took = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("  %s: %.0f MB/s, %.0f MB/s of processor time" % (name, size / took / 1e6, size / (used.ru_utime + used.ru_stime) / 1e6))
EOF
}
timed "packed" "$bytes" "$build/waylay" pack -o run.wpack rec
echo "  to $(($(stat -c %s run.wpack) >> 20)) MiB"
timed "verified" "$bytes" "$build/waylay" pack --verify run.wpack
timed "unpacked" "$bytes" "$build/waylay" unpack run.wpack -o back
cmp "$file" "back/$(basename "$file")" && echo "  back bit for bit"
