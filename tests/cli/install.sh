#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `make install` into a DESTDIR: what is installed finds its library and traces; `make uninstall` leaves
# nothing.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

root=$PWD/root
installed() { # TARGET: as a packager calls it; what is built already is not built again
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$WAYLAY_SOURCE" -o all O="${build#"$WAYLAY_SOURCE"/}" \
		PREFIX=/opt/waylay DESTDIR="$root" "$1" >out 2>err || fail "make $1"
}
installed install
prefix=$root/opt/waylay
for file in bin/waylay bin/waylay-sampler-perf lib/waylay/libwaylay.so; do
	[ -x "$prefix/$file" ] || fail "$file is not installed"
done
for page in "$WAYLAY_SOURCE"/docs/man/*.1; do
	cmp -s "$page" "$prefix/share/man/man1/$(basename "$page")" || fail "$page is not installed"
done

# It is used alone: nothing of the build is in the way.
set -- waylay-sampler-perf --backend cuda --variant naive --n 2000 --calls 7 --warmup 0
# shellcheck disable=SC2016
expect 0 env PATH="$prefix/bin:/usr/bin:/bin" waylay run -q --dir rec -- sh -c 'echo "$LD_PRELOAD" >preload; exec "$@"' sh "$@"
[ "$(cat preload)" = "$prefix/lib/waylay/libwaylay.so" ] || fail "the preload is $(cat preload)"
[ -s sh.pftrace ] || fail "no trace"
expect 1 "$prefix/bin/waylay" check --range sampler-naive --max-syncs 1 rec
says out "EXCEEDED: 2 synchronizations"
# Also through a link in another folder.
ln -s "$prefix/bin/waylay" link
expect 0 ./link run -q --no-export --dir rec -- "$prefix/bin/waylay-sampler-perf" --backend cuda --variant fused --calls 3
expect 0 ./link check --range sampler-fused --max-syncs 0 rec
expect 0 "$prefix/bin/waylay" doctor
says out "$prefix/lib/waylay/libwaylay.so"

# Without the library, a line that says so.
mv "$prefix/lib/waylay/libwaylay.so" .
one_line 125 "libwaylay.so is neither beside this program nor in ../lib/waylay" "$prefix/bin/waylay" run -- true
expect 1 "$prefix/bin/waylay" doctor
says out "not found"
mv libwaylay.so "$prefix/lib/waylay/"
# A path that LD_PRELOAD cannot carry.
cp -r "$prefix" "with space"
one_line 125 "has a space or colon, which LD_PRELOAD cannot carry" "with space/bin/waylay" run -- true

installed uninstall
[ -z "$(find "$root" -type f)" ] || fail "left by make uninstall: $(find "$root" -type f)"
