#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# dlsym and dlvsym answer every question with the preload as they do without it, but for the entries of
# a real driver. Needs nothing but the C library.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
fail() {
	echo "FAIL: $*"
	exit 1
}

LD_PRELOAD=$runtime "$build/dlsym_probe" "$build/dlsym/local.so" >plain
[ "$(sed -n 's/^layers: //p' plain)" = "101 201 302" ] || fail "the test's own layers: $(head -n 1 plain)"
[ "$(sed -n 's/^early: //p' plain)" = 15 ] || fail "the test's own early look-ups: $(sed -n 2p plain)"
LD_PRELOAD=$preload "$build/dlsym_probe" "$build/dlsym/local.so" >traced
diff plain traced || fail "look-ups differ with the preload (< without, > with it)"
if [ -n "$runtime" ]; then # the libraries below are built with the sanitizer too and need it in front
	echo "$(wc -l <plain) answers, the same with and without the preload"
	exit 0
fi
# From a library that asks before our constructor runs, in both orders.
LD_PRELOAD="$build/dlsym/early.so $preload" "$build/dlsym_probe" "$build/dlsym/local.so" >early_before
LD_PRELOAD="$preload $build/dlsym/early.so" "$build/dlsym_probe" "$build/dlsym/local.so" >early_after
for order in before after; do
	[ "$(sed -n 's/^early: //p' early_$order)" = 15 ] || fail "early look-ups, library $order the preload"
done
# Other preloaded tools that hook dlsym keep their say: the last line of each is how often they were asked.
LD_PRELOAD="$build/dlsym/other.so" "$build/dlsym_probe" "$build/dlsym/local.so" >other_alone
LD_PRELOAD="$preload $build/dlsym/other.so" "$build/dlsym_probe" "$build/dlsym/local.so" >other_behind
LD_PRELOAD="$build/dlsym/other.so $preload" "$build/dlsym_probe" "$build/dlsym/local.so" >other_before
grep -q '^other: [1-9]' other_alone || fail "the test's other tool was not asked"
diff other_alone other_behind || fail "another tool behind the preload sees other calls"
# One before us that takes glibc's dlsym by its version leaves us out; then our names are simply there.
others() {
	grep -v -e ' cu[A-Z]' -e ' fi_' -e '^  error' "$1"
}
others other_alone >other_alone.names
others other_before >other_before.names
diff other_alone.names other_before.names || fail "another tool before the preload sees other calls"
echo "$(wc -l <plain) answers, the same with and without the preload"
