#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# README's picture is made of the demo's trace by scripts/picture.py (`make pictures`): whole, readable, and of
# what the demo does.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
[ -x "$build/waylay-coll-perf" ] || {
	echo "no collectives in this build (they need libfabric-dev)"
	exit 77
}

expect 0 env DEMO_DIR="$PWD/demo" "$WAYLAY_SOURCE/scripts/demo.sh" "$build"
expect 0 waylay export -f chrome -o demo.json demo
expect 0 python3 "$WAYLAY_SOURCE/scripts/picture.py" demo.json picture.svg
python3 - picture.svg "$WAYLAY_SOURCE/docs/trace.svg" <<'EOF2' || fail "the picture"
import sys
import xml.etree.ElementTree as tree
texts = []
for path in sys.argv[1:]:
    root = tree.parse(path).getroot()
    assert root.get("aria-label") and float(root.get("width")) == 1200, path
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill", "").startswith("#") and one.get("rx")]
    assert len(bars) > 40 and all(float(one.get("width")) > 0 for one in bars), (path, len(bars))
    texts.append({one.text for one in root.iter("{http://www.w3.org/2000/svg}text") if one.get("class") != "bar" and one.get("class") != "unit"})
# The one in the source is of the same drawing.
assert texts[0] == texts[1], texts
EOF2
