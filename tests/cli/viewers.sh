#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `make viewers` makes the shipped page of pinned packages, byte for byte. Needs node and the npm registry.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"

if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
	echo "no node and npm here; the page is shipped as built"
	exit 77
fi
cp "$WAYLAY_SOURCE/viewers/page/package.json" "$WAYLAY_SOURCE/viewers/page/package-lock.json" .
# Every package is pinned, with its checksum and nothing of where it was fetched from.
python3 - <<'EOF2' || fail "package-lock.json"
import json, re
lock, wanted = json.load(open("package-lock.json")), json.load(open("package.json"))
for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
    assert re.fullmatch(r"\d+\.\d+\.\d+", version), (name, version)
    assert lock["packages"]["node_modules/" + name]["version"] == version, name
for name, one in lock["packages"].items():
    assert not name or one["integrity"].startswith("sha512-") and "resolved" not in one, (name, one)
EOF2
# Licences go with what they are of: each package that is in the page is named and its notice is there.
built=$WAYLAY_SOURCE/viewers/page/built.js
[ "$(grep -c 'Permission to use, copy, modify' "$built")" -ge 1 ] || fail "no licence in built.js"
for package in d3-array d3-scale d3-shape; do
	grep -q "^ \* .*$package [0-9.]* (ISC)" "$built" || fail "$package is not named in built.js"
done
timeout 60 npm ci --ignore-scripts --no-audit --no-fund --silent --prefer-offline >log 2>&1 || {
	echo "npm cannot fetch the page's packages here: $(tail -n 1 log)"
	exit 77
}
node "$WAYLAY_SOURCE/viewers/page/build.mjs" node_modules out.js || fail "build.mjs"
cmp out.js "$built" || fail "built.js is not what viewers/page makes: run make viewers and commit it"
