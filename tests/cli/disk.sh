#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Places that cannot be written: said before the job where that is known, else the job runs on and the
# report says what is missing.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# --- no directory for recordings
: >file
one_line 125 "using the directory for recordings, file: Not a directory" waylay run --dir file -- touch started
one_line 125 "making the directory for recordings, file/x: Not a directory" \
	waylay run --dir file/x -- touch started
one_line 125 "making the directory for recordings, /proc/nowhere" waylay run --dir /proc/nowhere -- touch started
[ ! -e started ] || fail "the job started without a directory"

# As someone who may not write: read-only directories mean nothing to root. In a place that this someone can
# reach, which the one of this test need not be.
open=$(mktemp -d)
trap 'umount small 2>/dev/null; chmod 755 "$open/locked"; rm -rf "$open"' EXIT
mkdir "$open/locked"
chmod 555 "$open/locked"
chmod 755 "$open"
unprivileged=
if [ "$(id -u)" = 0 ]; then
	unprivileged="setpriv --reuid 65534 --regid 65534 --clear-groups"
	$unprivileged "$build/waylay" --version >/dev/null 2>&1 || unprivileged=none
fi
if [ "$unprivileged" != none ]; then
	# shellcheck disable=SC2086
	{
		one_line 125 "using the directory for recordings, $open/locked: Permission denied" \
			$unprivileged "$build/waylay" run --dir "$open/locked" -- true
		says err "give another with --dir"
		one_line 125 "making the directory for recordings, $open/locked/x: Permission denied" \
			$unprivileged "$build/waylay" run --dir "$open/locked/x" -- true
	}
else
	echo "no way to become another user here: read-only directories not tried"
fi

# --- a file system that is full, or too small for the recording
small() { # SIZE: mounted at ./small, or the test is left out
	mkdir -p small
	[ "$(id -u)" = 0 ] && mount -t tmpfs -o "size=$1" none small 2>/dev/null
}
# shellcheck disable=SC2046
if small 300k; then
	# No room at all: the job runs on, untraced, and both say so.
	expect 0 waylay run --no-export --dir small -- $(sampler naive 3)
	says out naive
	says err "No space left on device"
	says err "this process is not traced"
	says err "nothing was recorded"
	expect 2 waylay run -q --no-export --dir small --max-syncs 99999 -- $(sampler naive 3)
	says err "CANNOT TELL: nothing was recorded"
	umount small

	# Room for the beginning: records are lost, counted, and no verdict is given without them.
	small 3m || fail "mounting again"
	expect 0 waylay run --no-export --dir small -- $(sampler naive 30000)
	says out naive
	says err "(disk full)"
	[ "$(field small 'r["complete"]')" = False ] || fail "complete with records lost"
	lost=$(field small 'sum(sum(p["drops"].values()) for p in r["processes"])')
	[ "$lost" -gt 1000 ] || fail "$lost records lost"
	expect 2 waylay check --max-syncs 99999999 small
	says out "records were lost"
	expect 1 waylay check --max-syncs 3 small
	# Nor is there room for a trace: a line, and no file.
	one_line 1 "small/x.pftrace: No space left on device" waylay export small -o small/x.pftrace
	[ -z "$(find small -name '*pftrace*')" ] || fail "a part of a trace was left"
	umount small
else
	echo "no tmpfs can be mounted here: full disks not tried"
fi

# --- a limit on the size of files, as batch systems set it. A job that needs no big file itself.
cat >waits.py <<'EOF'
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
for status in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
               cuda.cuStreamCreate(ctypes.byref(stream), 1)):
    assert status == 0, status
for _ in range(int(sys.argv[1])):
    assert cuda.cuStreamSynchronize(stream) == 0
print("done")
EOF
limited() { # LIMIT in blocks of 512 bytes
	# shellcheck disable=SC3045
	(ulimit -f "$1" && expect 0 waylay run --no-export --dir limited -- python3 waits.py 50021) || exit 1
	[ "$(cat out)" = "done" ] || fail "the job's output under a limit of $1"
}
limited 700
says err "ulimit -f"
says err "nothing was recorded"
limited 2500
says err " records ("
limited 100000
! grep -q Missing err || fail "records lost although there was room"
[ "$(field limited 'r["totals"]["synchronizations"]')" = 50021 ] || fail "not every wait was counted"

# --- whatever the size of the file system: what the job says, and its status, are what they are untraced
python3 waits.py 50021 >untraced
if small 400k; then
	umount small
	for kib in 200 $((300 + $$ % 50)) $((400 + $$ % 64)) 700 $((900 + $$ % 64)) 1500 2500 9000; do
		small "${kib}k" || fail "mounting $kib KiB"
		expect 0 waylay run -q --no-export --dir small -- python3 waits.py 50021
		cmp -s out untraced || fail "the job says something else on $kib KiB"
		umount small
	done
fi

# --- the trace
# shellcheck disable=SC2046
{
	expect 0 waylay run -q --dir here --output nowhere/x.pftrace -- $(sampler fused 3)
	says err "nowhere/x.pftrace: No such file or directory"
}
