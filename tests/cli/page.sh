#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The report as a page: whole or not at all, opens from disk in a browser without a word on its console and
# without a request, and can be used.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

here=$PWD
# shellcheck disable=SC2046
expect 0 waylay run -q --no-export --dir rec -- $(sampler naive 11)
expect 0 waylay report --html page.html rec
[ ! -s err ] || fail "words on standard error"
expect 0 waylay report --html again.html rec
cmp -s page.html again.html || fail "two pages of one recording differ"
expect 0 waylay report --html - rec
cmp -s page.html out || fail "the page on standard output"
one_line 1 "nowhere/page.html: No such file or directory" waylay report --html nowhere/page.html rec
one_line 64 "exclude each other" waylay report --json --html page.html rec
[ "$(wc -c <page.html)" -lt 2000000 ] || fail "the page is large"
# The shipped script is made of the present sources (`make viewers`).
(cd "$WAYLAY_SOURCE/viewers/page" && for file in $(find . -maxdepth 1 -type f | sed "s,^./,," | LC_ALL=C sort | grep -E '\.(js|mjs|json)$' | grep -v '^built\.js$'); do cat "$file"; done) |
	sha256sum | cut -d ' ' -f 1 >sources
grep -qF "sources $(cat sources)." "$WAYLAY_SOURCE/viewers/page/built.js" || fail "viewers/page/built.js is old: run make viewers"
# Nothing in a page comes from elsewhere, and nothing of a recording ends a script.
# Made in the source's folder, so that its lines are found.
(cd "$WAYLAY_SOURCE" && waylay report --html "$here/page.html" "$here/rec") || fail "the page with sources"
! grep -qE '(src|href)="(https?:)?//' page.html || fail "the page refers to a network"
[ "$(grep -c '</script>' page.html)" = 4 ] || fail "script elements"
waylay report --json rec >report.json
cat >evil.py <<'EOF2'
import os, sys
os.execv(sys.argv[1], ["</script><script>alert(1)</script><!--"] + sys.argv[2:])
EOF2
# shellcheck disable=SC2046
set -- $(sampler fused 3)
shift
expect 0 waylay run -q --no-export --dir evil -- python3 evil.py "$build/waylay-sampler-perf" "$@"
expect 0 waylay report --html evil.html evil
[ "$(grep -c '</script>' evil.html)" = 4 ] || fail "a recording ends a script"
says evil.html 'u003c/script>'

# Names that mean something to a page, a terminal, a query or a script: shown as they are, or cleaned.
evil=$(printf '</script><img src=x onerror="document.title=1">%s\033]0;title\007\033[31m\342\200\256%s' "'; DROP TABLE slice; --" '__proto__"\u0041&amp;')
"$build/tests/make_recording" named 997 2 "$evil" || fail "the recording of evil names"
expect 0 waylay report --html named.html named
[ "$(grep -c '</script>' named.html)" = 4 ] || fail "a name ends a script"
expect 0 waylay report named
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" out || fail "control characters reach the terminal"
! grep -q "$(printf '\342\200\256')" out || fail "a mark of direction reaches the terminal"
expect 0 waylay top --frames 1 named
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" out || fail "top: control characters reach the terminal"

PYTHONPATH=$WAYLAY_SOURCE/tests/cli/lib python3 -c 'import browser, sys; sys.exit(not browser.find())' 2>/dev/null || {
	echo "the page is written; needs chromium to open it"
	exit 77
}
cat >named.py <<'EOF2'
import os, sys
sys.path.insert(0, os.environ["WAYLAY_SOURCE"] + "/tests/cli/lib")
from browser import Browser
browser = Browser()
try:
    browser.open("file://" + sys.argv[1])
    browser.until("window.waylayTimeline && waylayTimeline.drawn > 0")
    assert browser.run("document.title").startswith("Waylay: "), browser.run("document.title")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelector('#ranges-table tbody tr').textContent").startswith("</script><img src=x onerror="), "the range's name"
    browser.run("location.hash = '#site/0'")
    browser.until("!document.getElementById('detail').hidden")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.complaints() == [], browser.complaints()
finally:
    browser.close()
EOF2
PYTHONDONTWRITEBYTECODE=1 python3 named.py "$here/named.html" || fail "evil names in a page"
cd "$WAYLAY_SOURCE" || exit 1
PYTHONDONTWRITEBYTECODE=1 python3 tests/cli/page.py "$here/page.html" "$here/report.json" \
	${WAYLAY_TEST_PICTURES:+"$WAYLAY_TEST_PICTURES"}
# A million events stay usable: measured where there is time for it.
if [ -n "${WAYLAY_TEST_LONG:-}" ]; then
	"$build/tests/make_recording" "$here/million" 1200000 4 || fail "a recording of a million events"
	waylay report --html "$here/million.html" "$here/million" || fail "a page of a million events"
	PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/page_speed.py "$here/million.html" limits || fail "a million events are slow"
fi
