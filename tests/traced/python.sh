#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Python frames as the tracer reads them equal what `traceback` says, for every interpreter found here;
# one that is not what it claims to be switches the reading off and does no harm.
# WAYLAY_TEST_PYTHONS: further interpreters; WAYLAY_TEST_TREES: random call trees for each.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
here=$(cd "$(dirname "$0")" && pwd)
unset WAYLAY_BUILD
[ -z "$runtime" ] || { echo "the probe is built with a sanitizer and cannot be opened by Python" && exit 77; }
fail() {
	echo "FAIL: $*"
	exit 1
}

# --- every interpreter once
pythons=
versions=
for candidate in ${WAYLAY_TEST_PYTHONS:-} "${HOME:-}"/.pyenv/versions/3.*/bin/python3 python3 \
	python3.9 python3.10 python3.11 python3.12 python3.13 python3.13t python3.14 python3.14t; do
	version=$("$candidate" -c 'import ctypes, sys; print(sys.implementation.name + sys.version.split()[0]
		+ getattr(sys, "abiflags", ""))' 2>/dev/null) || continue
	case $version in cpython3.[0-8].*) continue ;; cpython*) ;; *) continue ;; esac
	case " $versions " in *" $version "*) continue ;; esac
	versions="$versions $version"
	pythons="$pythons $candidate"
done
kinds=$(echo "$versions" | sed 's/cpython\(3\.[0-9]*\)[^ ]*[0-9]\(t*\)[^ ]*/\1\2/g')
missing=
for wanted in 3.9 3.10 3.11 3.12 3.13 3.13t 3.14 3.14t; do
	case " $kinds " in *" $wanted "*) ;; *) missing="$missing $wanted" ;; esac
done
[ -n "$pythons" ] || { echo "no CPython 3.9 or newer with ctypes" && exit 77; }

for python in $pythons; do
	"$python" "$here/python/frames.py" "$build/stackprobe.so" "${WAYLAY_TEST_TREES:-100}" 17 >said 2>&1 ||
		fail "$python: $(cat said)"
	cat said
	grep -q 'notes: none' said || fail "$python: $(cat said)"

	"$python" "$here/python/awaited.py" "$build/stackprobe.so" >said 2>&1 || fail "$python: $(cat said)"
	grep -q 'notes: none' said || fail "$python: $(cat said)"

	# Claims to be another: reading must end quietly, or go on rightly where the layouts agree.
	for claimed in 3.9.1 3.10.1 3.11.1 3.12.1 3.13.1 3.14.1 3.99.1 nonsense; do
		status=0
		CLAIMED_PYTHON_VERSION="$claimed (x)" LD_PRELOAD=$build/python_version.so \
			"$python" "$here/python/frames.py" "$build/stackprobe.so" 3 17 >said 2>&1 || status=$?
		[ $status -le 1 ] || fail "$python that claims to be $claimed: status $status: $(cat said)"
		grep -q -e 'notes: none' -e 'notes: python-frames: off' said ||
			fail "$python that claims to be $claimed: $(cat said)"
	done
done

# --- through the whole tracer
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "$versions; not here:${missing:- none}; no simulated CUDA driver" && exit 0; }
export LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cat >expected <<END
waits.py:15 inner, waits.py:19 outer, waits.py:24 on_thread
waits.py:15 inner, waits.py:19 outer, waits.py:27 <module>
waits.py:15 inner, waits.py:19 outer, waits.py:28 <module>
END
for python in $pythons; do
	rm -rf out
	WAYLAY_DIR=$PWD/out LD_PRELOAD=$preload "$python" "$here/python/waits.py" >said 2>errors ||
		fail "$python traced: $(cat said errors)"
	[ "$(cat said errors)" = waited ] || fail "$python traced: $(cat said errors)"
	"$build/spool_dump" --stacks out/*.wspool >dump
	awk '/^event/ { if (line) print line; line = ""; wait = / cuda_wait /; next }
	     wait && /^  python .*waits.py/ {
		sub(/^  python .*\//, ""); line = line (line ? ", " : "") $0 }
	     END { if (line) print line }' dump | sort >got
	diff expected got || fail "$python: < expected, > recorded"
	grep -q '^  native .*libffi' dump || fail "$python: no native frames"
	grep -q '^  native .*libwaylay' dump && fail "$python: our own frames are shown"
done
echo "$versions; not here:${missing:- none}"
