#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every benchmark of a build, one after the other:  tests/bench/run.sh BUILD_DIR [NAME ...]
# Each prints ratios against a peer measured in the same run. Never part of the tests.
set -eu

build=$(cd "${1:?usage: tests/bench/run.sh BUILD_DIR [NAME ...]}" && pwd)
shift
WAYLAY_SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
WAYLAY_BUILD=$build
export WAYLAY_BUILD WAYLAY_SOURCE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for program in "$build"/bench/bench_* "$WAYLAY_SOURCE"/tests/bench/bench_*.sh; do
	[ -x "$program" ] || continue
	name=$(basename "$program" .sh)
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	fi
	printf '== %s\n' "$name"
	"$program"
done
