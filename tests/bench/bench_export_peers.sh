#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The exporter beside what people turn traces into text and into Chrome's form with: babeltrace2 on a CTF
# trace of events with two integers and a text, `uftrace dump --chrome` on a recording of calls. Processor
# time of one run each, all in this run: other load on the machine costs all of them alike. A peer that is not
# installed is left out.
set -eu

events=${1:-2000000}
command -v python3 >/dev/null || exit 0
"$WAYLAY_BUILD/bench/bench_export" "$events" perfetto "$events" >ours
sed -n '/^perfetto/p' ours
bare=$(sed -n 's/^perfetto, bare[^0-9]*\([0-9.]*\) M slices.*/\1/p' ours)

# User and system seconds of a command whose output nobody keeps.
seconds() {
	python3 - "$@" <<'EOF'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print('%.3f' % (usage.ru_utime + usage.ru_stime))
EOF
}
tell() { # WHAT COUNT SECONDS UNIT
	awk -v what="$1" -v count="$2" -v seconds="$3" -v unit="$4" -v ours="$bare" 'BEGIN {
		rate = count / seconds / 1e6
		printf "%-42s %8.2f M %s/s; ours, bare: %.1f times that\n", what, rate, unit, ours / rate
	}'
}

if command -v babeltrace2 >/dev/null; then
	mkdir -p ctf
	python3 - "$events" <<'EOF'
import struct, sys
count = int(sys.argv[1])
open('ctf/metadata', 'w').write('''/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; uint32_t stream_id; }; };
clock { name = "monotonic"; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := stamp_t;
stream { id = 0; event.header := struct { uint32_t id; stamp_t timestamp; };
	packet.context := struct { uint64_t content_size; uint64_t packet_size; }; };
event { name = "waylay:call"; id = 0; stream_id = 0;
	fields := struct { uint64_t bytes; uint32_t count; string name; }; };
''')
event = struct.Struct('<IQQI11s')
with open('ctf/stream', 'wb') as file:
    at = 0
    while at < count:
        part = min(count - at, 20000)
        body = b''.join(event.pack(0, 1000 + (at + i) * 100, at + i, i, b'cuLaunchKe\0') for i in range(part))
        bits = (24 + len(body)) * 8
        file.write(struct.pack('<IIQQ', 0xc1fc1fc1, 0, bits, bits) + body)
        at += part
EOF
	tell "babeltrace2, as text" "$events" "$(seconds babeltrace2 ctf)" events
fi

if command -v uftrace >/dev/null; then
	cat >calls.c <<'EOF'
#include <stdlib.h>
__attribute__((noinline)) int inner(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
__attribute__((noinline)) int outer(int x) { return inner(x) + inner(x + 1); }
int main(int argc, char **argv)
{
	int sum = 0;
	for (long i = 0; i < atol(argv[argc - 1]); i++)
		sum += outer((int)i);
	return sum == 42;
}
EOF
	"${CC:-cc}" -O1 -pg -o calls calls.c 2>/dev/null || gcc -O1 -pg -o calls calls.c
	calls=$((events / 4))
	if uftrace record -d uf ./calls "$calls" >/dev/null 2>&1; then
		# Three calls a turn, a begin and an end each; counted as they come out.
		got=$(uftrace dump --chrome -d uf 2>/dev/null | grep -c '"ph":"[BE]"' || true)
		took=$(seconds uftrace dump --chrome -d uf)
		tell "uftrace dump --chrome" "$got" "$took" "begins and ends"
		tell "uftrace dump --chrome" "$((got / 2))" "$took" slices
	fi
fi
