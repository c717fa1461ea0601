#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A folder that cannot be written to, a full one: at most one line is said, and the job runs on.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
unset WAYLAY_BUILD
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
export LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fail() {
	echo "FAIL: $*"
	exit 1
}
traced() { # NAME=VALUE...
	env "$@" LD_PRELOAD="$preload" "$build/traced_threads" 2 7 0 >said 2>errors || fail "$*: status $?: $(cat errors)"
	[ "$(cat said)" = 14 ] || fail "$*: the job said $(cat said)"
}
echo file >file
for bad in /dev/null/under "$PWD/file/under" /proc/none; do
	# Another place is found; a line and the recording say so.
	mkdir spare
	traced WAYLAY_DIR="$bad" TMPDIR="$PWD/spare"
	[ "$(grep -c . errors) $(grep -c "$bad: .* recording to $PWD/spare/.* set WAYLAY_DIR" errors)" = "1 1" ] ||
		fail "$bad: said $(cat errors)"
	recording=$(find spare -name '*.wspool')
	[ -n "$recording" ] || fail "$bad: no recording in \$TMPDIR either"
	"$build/spool_dump" "$recording" | grep -q "^attribute spool.fallback .*$bad" || fail "$bad: the recording does not say why it is where it is"
	rm -rf spare
	# None is found: one line, that says what to set.
	traced WAYLAY_DIR="$bad" TMPDIR=/dev/null
	[ "$(wc -l <errors)" = 1 ] || fail "$bad: said $(cat errors)"
	grep -q 'set WAYLAY_DIR to a directory that can be written to' errors || fail "$bad: said $(cat errors)"
done
# Made where it was not there, its parents too, for the owner's eyes alone.
traced WAYLAY_DIR="$PWD/new/and/deep"
[ "$(stat -c %a new/and/deep)" = 700 ] || fail "the new folder's mode is $(stat -c %a new/and/deep)"
[ "$(stat -c %a new/and/deep/*.wspool)" = 600 ] || fail "the recording's mode"
# A relative one is where the job started, wherever it went since.
mkdir start
(cd start && WAYLAY_DIR=here LD_PRELOAD=$preload "$build/traced_threads" 1 3 0 / >/dev/null)
[ -d start/here ] || fail "a relative folder: $(ls start)"
# A full disk: what did not fit is counted, the job goes on.
if mkdir full && mount -t tmpfs -o size=1m none full 2>/dev/null; then
	trap 'umount full' EXIT
	env WAYLAY_DIR="$PWD/full" LD_PRELOAD="$preload" "$build/traced_threads" 3 5003 0 >said 2>errors ||
		fail "full disk: status $?"
	[ "$(cat said)" = 15009 ] || fail "full disk: the job said $(cat said)"
	[ ! -s errors ] || fail "full disk: said $(cat errors)"
	"$build/spool_dump" full/*.wspool >dump
	kept=$(grep -c ' cuda_wait ' dump)
	lost=$(sed -n 's/^drops disk full //p' dump)
	[ "${lost:-0}" -gt 0 ] || fail "full disk: $kept kept, none lost"
	[ "$((kept + lost))" -ge 15009 ] || fail "full disk: $kept kept, $lost lost of 15009"
	echo "full disk: $kept kept, $lost counted as lost"
fi
