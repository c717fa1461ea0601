#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Formats and static analysis:  scripts/lint.sh FILE.c FILE.h ...
set -u

status=0
need() {
	command -v "$1" >/dev/null 2>&1 && return 0
	echo "lint: $1 is not installed, its checks are left out"
	return 1
}
sources=
for file in "$@"; do
	case $file in *.c) sources="$sources $file" ;; esac
done
cflags="-std=gnu11 -D_GNU_SOURCE -I. -DWAYLAY_VERSION=\"0\""
if pkg-config --exists libfabric 2>/dev/null; then
	cflags="$cflags -DHAVE_LIBFABRIC=1"
fi

if need clang-format; then
	clang-format --dry-run --Werror "$@" || status=1
fi
if need clang-tidy; then
	# shellcheck disable=SC2086,SC2016 # a list; the inner shell expands its own
	printf '%s\n' $sources | xargs -P "$(nproc)" -n 4 sh -c '
		flags=$1; shift
		clang-tidy --quiet "$@" -- $flags 2>/dev/null' sh "$cflags" || status=1
fi
if need cppcheck; then
	# shellcheck disable=SC2086
	cppcheck --quiet --enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
		--suppress=missingIncludeSystem -I. $sources || status=1
fi
if need shellcheck; then
	git ls-files '*.sh' .ci/run | xargs shellcheck -x || status=1
fi
exit $status
