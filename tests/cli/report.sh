#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay report`: the numbers of a known job, as text and as JSON, the same each time.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

cat >job.sh <<EOF
$(sampler naive 11) >/dev/null
$(sampler fused 13) >/dev/null
EOF
expect 0 waylay run --no-export --dir rec -- sh job.sh
cp err run_report
expect 0 waylay report rec
cp out text
[ ! -s err ] || fail "words on standard error"
cmp -s text run_report || fail "the report after the job and the one of its recording differ"
expect 0 waylay report rec
cmp -s out text || fail "two reports of one recording differ"
expect 0 waylay report --json rec
cp out json
expect 0 waylay report --json rec
cmp -s out json || fail "two JSON reports of one recording differ"

python3 - "$WAYLAY_SOURCE/docs/report-json.md" <<'EOF' || fail "the JSON report"
import json, re, sys

report = json.load(open("json"))
text = open("text").read()
documented = set(re.findall(r"^\| `(\w+)` \|", open(sys.argv[1]).read(), re.M))
assert set(report) == documented, ("members and their documentation", set(report) ^ documented)

assert report["schema"] == 1 and report["complete"] and report["simulated"]
assert len(report["processes"]) == 2 and report["unreadable"] == 0 and report["unreturned"] == []
ranges = {one["name"]: one for one in report["ranges"]}
naive, fused = ranges["sampler-naive"], ranges["sampler-fused"]
assert (naive["instances"], naive["synchronizations"], naive["synchronizations_worst"]) == (11, 22, 2), naive
assert (fused["instances"], fused["synchronizations"]) == (13, 0), fused
assert sum(one["count"] for one in naive["places"]) == 22
assert all(one["rule"] == "stream_wait" for one in naive["places"])
assert any("sampler.c:" in one["place"] + one["called_from"] for one in naive["places"]), naive["places"]

# Parts add up to the whole.
totals = report["totals"]
waits = [one for one in report["sites"] if one["class"] == "waits"]
stages = [one for one in report["sites"] if one["class"] == "stages"]
assert sum(one["count"] for one in waits) == totals["synchronizations"]
assert sum(one["count"] for one in stages) == totals["staged"]
assert sum(one["held_ns"] for one in report["sites"]) == totals["held_ns"]
for site in report["sites"]:
    assert sum(way["count"] for way in site["ways"]) == site["count"], site
    assert sum(way["held_ns"] for way in site["ways"]) == site["held_ns"], site
assert [one["held_ns"] for one in report["sites"]] == sorted((one["held_ns"] for one in report["sites"]), reverse=True)

# The text says the same.
assert "Synchronizations: %d\n" % totals["synchronizations"] in text
assert "{:,} events".format(totals["events"]) in text
row = re.search(r"^  sampler-naive +(\d+) +([\d.]+) +(\d+)", text, re.M)
assert row and row.groups() == ("11", "2.0", "2"), row
assert "(simulated CUDA driver)" in text
for site in report["sites"][:3]:
    assert site["place"] in text.split("Ranges (NVTX)")[0], site["place"]
    assert not site["remedy"] or site["remedy"] in text
EOF

# --- registrations again and again: what a cache would save is what one saves
if [ -x "$build/waylay-coll-perf" ] && waylay-coll-perf --list-providers >/dev/null 2>&1; then
	for cache in off 1024; do
		expect 0 waylay run -q --no-export --dir "mr_$cache" -- waylay-coll-perf --np 2 --mr-cache $cache \
			--minbytes 64K --maxbytes 1M --stepfactor 4 --iters 11 all_reduce
		waylay report --json "mr_$cache" >"mr_$cache.json" 2>err || fail "a report with cache $cache"
	done
	python3 - <<'EOF' || fail "registrations without and with a cache"
import json
without, cached = (json.load(open("mr_%s.json" % one))["registrations"] for one in ("off", "1024"))
assert without["failed"] == cached["failed"] == 0
assert cached["repeated"] == 0 and cached["cache"]["by_entries"] == [], cached
# The job's real cache registers what is left when all hits that were found possible are taken away.
assert without["count"] - without["repeated"] == cached["count"], (without["count"], cached["count"])
for curve in without["cache"]["by_entries"], without["cache"]["by_bytes"]:
    assert curve[-1][1] == without["repeated"] > 0, curve
    assert curve == sorted(curve) and [p[1] for p in curve] == sorted(p[1] for p in curve)
    assert curve[-1][2] <= without["time_ns"]
EOF
	expect 0 waylay report mr_off
	says out "of ranges registered before: caches of"
	expect 0 waylay report mr_1024
	says out "a cache is evidently there"
fi

# --- a reader that goes away
{
	waylay report rec 2>err
	echo $? >status
} | head -n 1 >first
[ -s first ] || fail "no first line"
[ ! -s err ] || fail "words when nobody reads on"
waylay report rec >/dev/full 2>err
[ $? = 1 ] || fail "a report to a full device"
says err "writing the report to standard output: No space left on device"
waylay report --json rec >/dev/full 2>err
[ $? = 1 ] || fail "a JSON report to a full device"
says err "writing the report to standard output: No space left on device"

# --- nothing of a recording drives the terminal
cat >evil.py <<'EOF'
import os, sys
os.execv(sys.argv[1], ["\033[31mevil\a"] + sys.argv[2:])
EOF
# shellcheck disable=SC2046
set -- $(sampler fused 3)
shift
expect 0 waylay run --no-export --dir evil -- python3 evil.py "$build/waylay-sampler-perf" "$@"
cat out err >all
expect 0 waylay report evil
cat out err >>all
says all "evil"
! tr -d '\n\t' <all | LC_ALL=C grep -q '[[:cntrl:]]' || fail "control characters in a report"
