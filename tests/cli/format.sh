#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Sources are in the project's format, scripts pass shellcheck, every file says its licence, and the tree
# holds nothing unfinished. `make lint` adds clang-tidy and cppcheck, which take minutes.
set -eu

cd "$WAYLAY_SOURCE"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
	echo "needs a git checkout"
	exit 77
}
for file in $(git ls-files '*.c' '*.h' '*.S' '*.def' '*.cu' '*.sh' '*.py'); do
	head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
		echo "$file: no licence line"
		exit 1
	}
done
if git ls-files '*.c' '*.h' '*.S' '*.def' '*.cu' '*.sh' '*.py' 'Makefile' '*.mk' | grep -v '^tests/cli/format.sh$' |
	xargs grep -nwE 'TODO|FIXME|XXX|HACK'; then
	echo "unfinished (above)"
	exit 1
fi
checked=
if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
	git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
	checked="clang-format"
fi
if command -v shellcheck >/dev/null; then
	git ls-files '*.sh' .ci/run | xargs shellcheck -x -e SC1091
	checked="$checked shellcheck"
fi
[ -n "$checked" ] || {
	echo "licence lines are right; needs clang-format 14 or shellcheck for the rest"
	exit 77
}
echo "checked: $checked"
