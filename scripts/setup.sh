#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a target needs on Debian or Ubuntu:  scripts/setup.sh demo|test
# Does nothing when everything is there; without the right to install it prints the one command to run.
set -eu

goal=${1:?usage: scripts/setup.sh demo|test}
packages='gcc make pkg-config libc6-dev libfabric-dev libfabric-bin libdw-dev libelf-dev libjansson-dev
	zlib1g-dev uthash-dev'
case $goal in
demo) ;;
test) packages="$packages libmicrohttpd-dev libsqlite3-dev libzstd-dev libcmocka-dev protobuf-compiler python3 python3-protobuf openmpi-bin libopenmpi-dev
	libjemalloc2 libtcmalloc-minimal4 gdb binutils procps valgrind" ;;
*)
	echo "setup: unknown goal '$goal'; use demo or test" >&2
	exit 64
	;;
esac

missing=
for package in $packages; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
		as_root=sudo
	else
		echo "setup: some packages are missing and this user may not install them. Run:" >&2
		echo "    sudo apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: these packages (by their Debian names) are missing:$missing" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing$missing" >&2
# shellcheck disable=SC2086 # $missing is a list
# An index may be absent (a fresh machine) or old: refresh it once, then install.
if ! { $as_root apt-get -o DPkg::Lock::Timeout=300 update &&
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
		--no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "setup: apt-get could not install:$missing" >&2
	exit 1
fi
