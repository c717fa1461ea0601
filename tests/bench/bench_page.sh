#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The report page of a recording of more than a million events in a headless Chromium: how soon it is painted,
# and how long a frame takes while its timeline is zoomed. Few rows, and many (ranks).
set -eu

build=$WAYLAY_BUILD
PYTHONPATH=$WAYLAY_SOURCE/tests/cli/lib python3 -c 'import browser, sys; sys.exit(not browser.find())' 2>/dev/null || {
	echo "  no chromium here"
	exit 0
}
for ranks in 4 256; do
	"$build/tests/make_recording" "made$ranks" 1200000 "$ranks"
	"$build/waylay" report --html "page$ranks.html" "made$ranks"
	PYTHONDONTWRITEBYTECODE=1 python3 "$WAYLAY_SOURCE/tests/bench/page_speed.py" "page$ranks.html"
done
