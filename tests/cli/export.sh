#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay export` to places good and bad: a file that is whole or none, a device, a pipe, ^C.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# shellcheck disable=SC2046
expect 0 waylay run -q --no-export --dir rec -- $(sampler naive 301)

# --- good places
expect 0 waylay export rec
[ -s waylay.pftrace ] || fail "no trace under the name that help gives"
says err "waylay.pftrace: "
expect 0 waylay export rec -f chrome
python3 -c 'import json; json.load(open("waylay.json"))' || fail "waylay.json is no JSON"
expect 0 waylay export rec -o other.pftrace
cmp waylay.pftrace other.pftrace || fail "two exports of one recording differ"
expect 0 waylay export rec -o -
cmp out waylay.pftrace || fail "standard output differs from a file"
[ "$(wc -l <err)" = 1 ] || fail "words about an export to standard output"
expect 0 waylay export rec --compress -o small.pftrace
[ "$(wc -c <small.pftrace)" -lt "$(wc -c <waylay.pftrace)" ] || fail "--compress does not"
expect 0 waylay export rec --no-stacks -o bare.pftrace
[ "$(wc -c <bare.pftrace)" -lt "$(wc -c <waylay.pftrace)" ] || fail "--no-stacks leaves as much"
expect 0 waylay export rec -f chrome -o waylay.json.gz
gzip -dc waylay.json.gz | cmp - waylay.json || fail "waylay.json.gz is not the same"
expect 0 waylay export rec -o /dev/null
[ -c /dev/null ] || fail "/dev/null was replaced"

expect 0 waylay export rec --per-host -o hosts
[ -s hosts/host0.pftrace ] || fail "no trace of the one host"
python3 - <<'EOF' || fail "the manifest"
import json, os
manifest = json.load(open("hosts/manifest.json"))["perfetto_manifest"]
assert manifest["version"] == 1 and len(manifest["files"]) == 1, manifest
assert manifest["files"][0]["path"] == "host0.pftrace", manifest
assert manifest["files"][0]["machine"]["name"] == os.uname().nodename, manifest
EOF

# --- bad ones
one_line 64 "--per-host is for perfetto" waylay export rec --per-host -f chrome
one_line 64 "--per-host writes several files" waylay export rec --per-host -o -
one_line 1 "nowhere/x.pftrace: No such file or directory" waylay export rec -o nowhere/x.pftrace
mkdir folder
one_line 1 "folder: Is a directory" waylay export rec -o folder
one_line 1 "/dev/full: No space left on device" waylay export rec -o /dev/full
# What was there before stays when the new one cannot be written.
if [ "$(id -u)" = 0 ] && mkdir tiny && mount -t tmpfs -o size=64k none tiny 2>/dev/null; then
	echo before >tiny/x.pftrace
	one_line 1 "tiny/x.pftrace: No space left on device" waylay export rec -o tiny/x.pftrace
	[ "$(cat tiny/x.pftrace)" = before ] || fail "a good file was lost to a bad export"
	[ "$(find tiny -type f | wc -l)" = 1 ] || fail "a part of a trace was left"
	umount tiny
fi

# --- nobody reads: the end of a pipe ends the export as it ends any filter
{
	waylay export rec -o - 2>err
	echo $? >status
} | head -c 10 >/dev/null
[ "$(cat status)" = 141 ] || fail "status $(cat status) when nobody reads"
[ ! -s err ] || fail "words when nobody reads"
# Where the signal for it is ignored, as under some supervisors, it is a line.
{
	(trap '' PIPE && waylay export rec -o - 2>err)
	echo $? >status
} | head -c 10 >/dev/null
[ "$(cat status)" = 1 ] || fail "status $(cat status) when nobody reads and SIGPIPE is ignored"
says err "standard output: Broken pipe"

# --- ^C in the middle: as if it had not been begun. A fifo holds the export in the middle.
python3 - <<'EOF' || fail "^C during an export"
import os, signal, subprocess, sys, time

for number in signal.SIGINT, signal.SIGTERM:
    # Big enough to be interrupted: many times the same recording would be taken once, so it is copied.
    os.makedirs("many", exist_ok=True)
    child = subprocess.Popen(["waylay", "export", "rec", "-o", "many/x.pftrace"], stderr=subprocess.PIPE)
    while not os.listdir("many") and child.poll() is None:
        pass
    child.send_signal(number)
    words = child.stderr.read()
    status = child.wait()
    left = os.listdir("many")
    if status == 0:
        # It had ended by then: whole.
        if left != ["x.pftrace"]:
            sys.exit("an export that ended left %r" % left)
        os.remove("many/x.pftrace")
        continue
    if status != -number:
        sys.exit("status %d after signal %d: %r" % (status, number, words))
    if left:
        sys.exit("%r was left" % left)
EOF
