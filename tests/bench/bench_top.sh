#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What `waylay top` costs the job that it watches: pairs of runs of a job that does nothing but record, one
# watched and one not, in turn.
set -eu

exec python3 - "$WAYLAY_BUILD" "${PAIRS:-7}" <<'EOF2'
import os
import shutil
import statistics
import subprocess
import sys
import time

build, pairs = sys.argv[1], int(sys.argv[2])


def run(watched):
    shutil.rmtree("watched", ignore_errors=True)
    job = subprocess.Popen([build + "/tests/watched_loop", "watched", "4001"], stdout=subprocess.PIPE)
    looks, top = 0, None
    if watched:
        while not os.path.isdir("watched") or not os.listdir("watched"):
            time.sleep(0.001)
        top = subprocess.Popen([build + "/waylay", "top", "--interval", "100ms", "watched"], stdout=subprocess.PIPE)
    least, median = map(float, job.communicate()[0].split())
    assert job.returncode == 0
    if top:
        looks = len(top.communicate()[0].splitlines())
        assert top.returncode == 0
    return least, median, looks


run(False)
alone, watched = [], []
for pair in range(pairs):
    for which in (False, True) if pair % 2 else (True, False):
        (watched if which else alone).append(run(which))
for name, at in ("fastest burst", 0), ("median burst", 1):
    a, b = [one[at] for one in alone], [one[at] for one in watched]
    change = [100 * (y / x - 1) for x, y in zip(a, b)]
    print(f"  {name:13}, ns an event: alone {min(a):.1f} (runs differ by {100 * (max(a) / min(a) - 1):.0f} %), watched {min(b):.1f}; "
          f"watched over alone: median of {pairs} pairs {statistics.median(change):+.1f} %, least over least {100 * (min(b) / min(a) - 1):+.1f} %")
print(f"  {sum(one[2] for one in watched)} looks in all")
EOF2
