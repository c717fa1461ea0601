#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ^C in the middle of `waylay export`, of every format, with every kind of input: the status says so, what was
# there before stays, and no part of a file is left.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

cat >waits.py <<'EOF'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
for status in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
               cuda.cuStreamCreate(ctypes.byref(stream), 1)):
    assert status == 0, status
for _ in range(30011):
    assert cuda.cuStreamSynchronize(stream) == 0
EOF
expect 0 waylay run -q --no-export --dir rec -- python3 waits.py
expect 0 waylay pack -o rec.wpack rec
python3 - <<'EOF' || fail "a trace to lay beside it"
import json, subprocess
rows = [json.loads(line) for line in subprocess.run(
    ["waylay", "export", "rec", "-f", "jsonl", "--table", "meta,processes", "-o", "-"],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode().splitlines()]
start = [int(row["value"]) for row in rows if row["table"] == "meta" and row["key"] == "start_realtime_ns"][0]
pid = [row["pid"] for row in rows if row["table"] == "processes"][0]
us = "%d.%03d" % (start // 1000, start % 1000)
json.dump({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "op", "pid": pid, "tid": pid, "ts": 0, "dur": 1},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}],
    "baseTimeNanoseconds": start}, open("kineto.json", "w"))
EOF

python3 - <<'EOF' || fail "^C"
import array, fcntl, os, signal, subprocess, sys, termios, time

KINDS = [("x.pftrace", []), ("x.pftrace", ["--compress"]), ("x.pftrace", ["--with", "kineto.json"]),
         ("x.pftrace", ["--max-size", "100M"]), ("x.json", ["-f", "chrome"]), ("x.json.gz", ["-f", "chrome"]),
         ("x.db", ["-f", "sqlite"]), ("x.jsonl.gz", ["-f", "jsonl"]), ("events.csv", ["-f", "csv"]),
         ("host0.pftrace", ["--per-host"])]
WAIT_S = 60
stopped = 0


def files():
    return {name: os.path.getsize(os.path.join("many", name)) for name in os.listdir("many")}


for name, options in KINDS:
    for what in "rec", "rec.wpack":
        os.makedirs("many", exist_ok=True)
        for left in os.listdir("many"):
            os.remove(os.path.join("many", left))
        with open(os.path.join("many", name), "w") as before:
            before.write("before")
        to = "many" if name in ("events.csv", "host0.pftrace") else os.path.join("many", name)
        child = subprocess.Popen(["waylay", "export", what, "-o", to] + options, stderr=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
        end = time.monotonic() + WAIT_S
        while len(files()) == 1 and child.poll() is None and time.monotonic() < end:
            pass
        child.send_signal(signal.SIGINT)
        words = child.stderr.read()
        status = child.wait()
        if status == 0:  # it had ended by then
            continue
        stopped += 1
        if status != -signal.SIGINT:
            sys.exit("%s of %s: status %d: %r" % (options, what, status, words))
        if files() != {name: 6}:
            sys.exit("%s of %s left %r" % (options, what, files()))
        if words:
            sys.exit("%s of %s said %r" % (options, what, words))
if stopped < len(KINDS):
    sys.exit("only %d exports were stopped in the middle" % stopped)

# Nobody reads the pipe, nobody closes it.
for options in [], ["-f", "chrome"], ["-f", "jsonl"]:
    read, write = os.pipe()
    child = subprocess.Popen(["waylay", "export", "rec", "-o", "-"] + options, stdout=write,
                             stderr=subprocess.DEVNULL)
    os.close(write)
    # The pipe is full once it holds what it can.
    full = 0
    while full < 65536 and child.poll() is None:
        held = array.array("i", [0])
        fcntl.ioctl(read, termios.FIONREAD, held)
        full = held[0]
    child.send_signal(signal.SIGTERM)
    try:
        status = child.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        sys.exit("an export %s into a full pipe does not end" % options)
    if status != -signal.SIGTERM:
        sys.exit("status %d after a signal, into a full pipe" % status)
    os.close(read)
print("%d exports stopped in the middle" % stopped)
EOF

# --- no room for the last of several files
if [ "$(id -u)" = 0 ] && mkdir tiny && mount -t tmpfs -o size=200k none tiny 2>/dev/null; then
	trap 'umount tiny 2>/dev/null' EXIT
	for kind in "perfetto tiny/x.pftrace" "chrome tiny/x.json" "chrome tiny/x.json.gz" "jsonl tiny/x.jsonl" \
		"sqlite tiny/x.db" "csv tiny/folder"; do
		# shellcheck disable=SC2086
		set -- $kind
		expect 1 waylay export rec -f "$1" -o "$2"
		says err "free some space"
		[ -z "$(find tiny -type f)" ] || fail "$kind: left $(find tiny -type f)"
	done
	expect 1 waylay export rec --per-host -o tiny/hosts
	[ -z "$(find tiny -type f)" ] || fail "--per-host: left $(find tiny -type f)"
	umount tiny
else
	echo "no tmpfs can be mounted here: full disks not tried"
fi
