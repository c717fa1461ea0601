#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The page of rules is what the code's tables say: `make docs` writes it.
set -eu
"$WAYLAY_BUILD/tests/rules_table" >rules.md
diff "$WAYLAY_SOURCE/docs/rules.md" rules.md || {
	echo "docs/rules.md is not what the code says; run make docs"
	exit 1
}
[ "$(grep -c '^| `' rules.md)" -ge 35 ]
grep -q 'cuMemcpyDtoHAsync_v2' rules.md
# shellcheck disable=SC2016 # backquotes of Markdown
grep -q '^| `memory_free` | `cuMemFree_v2`' rules.md
