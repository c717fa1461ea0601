#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A library that is unloaded and another in its place: stacks name the one that is there.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
for name in one two three; do
	cp "$build/stack/callback.so" ./$name.so
done
LD_PRELOAD=$runtime exec "$build/stack_reload" "$build/stackprobe.so" "$PWD/one.so" "$PWD/two.so" "$PWD/three.so"
