#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay export --with`: a trace in the form of torch.profiler's, made from a recording's own launches (each
# inside a runtime call, with a kernel after it), laid beside the recording: every row is there, at its time,
# with an arrow from the launch it was made from.
set -eu

# shellcheck source=tests/traced/exported.inc
. "$(dirname "$0")/exported.inc"
waylay run -q --no-export --dir rec -- waylay-sampler-perf --backend cuda --variant naive --n 2003 --calls 23 \
	--warmup 0 >out 2>err || fail "the job"
waylay export rec -f jsonl -o rec.jsonl 2>err || fail "export"
"$python" - <<'EOF'
import gzip, json
rows = [json.loads(line) for line in open('rec.jsonl')]
meta = {row['key']: int(row['value']) for row in rows if row['table'] == 'meta' and row['key'].endswith('_ns')}
pid = [row['pid'] for row in rows if row['table'] == 'processes'][0]
tids = {row['thread']: row['tid'] for row in rows if row['table'] == 'threads'}
launches = [row for row in rows if row['table'] == 'events' and row['type'] == 'cuda_launch']
if len(launches) < 23:
    raise SystemExit('only %d launches' % len(launches))
base = 1600000000000000000
real = meta['start_realtime_ns'] - meta['start_ns'] - base      # from the model's clock to the file's
us = lambda ns: '%d.%03d' % (ns // 1000, ns % 1000)
wanted, events = [], []
for number, row in enumerate(launches):
    correlation = number * 7 + 3
    # A runtime call is around ours; a driver's is seen inside the driver, and so inside ours.
    category, name, before, more = [('cuda_runtime', 'cudaLaunchKernel', 50, 70),
                                    ('cuda_driver', 'cuLaunchKernelEx', -5, -10)][number % 3 == 1]
    events.append('{"ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d, "ts": %s, '
                  '"dur": %s, "args": {"External id": 5, "cbid": 211, "correlation": %d}}' %
                  (category, name, pid, tids[row['thread']], us(row['begin_ns'] - before + real),
                   us(row['dur_ns'] + more), correlation))
    begin = row['end_ns'] + 5000
    events.append('{"ph": "X", "cat": "kernel", "name": "k\\"\\u00e9\\u0041\\ud83d\\ude00%d<float, [1]>", "pid": 0, "tid": 7, "ts": %s, "dur": %s, '
                  '"args": {"device": 0, "context": 1, "stream": 7, "correlation": %d, "grid": [4, 1, 1], '
                  '"block": [128, 1, 1], "shared memory": {"deep": [1, {"x": "}"}]}}}' %
                  (number, us(begin + real), us(1500 + number), correlation))
    wanted.append(['k"\u00e9A\U0001f600%d<float, [1]>' % number, begin, 1500 + number, row['begin_ns']])
events.append('{"ph": "i", "cat": "Trace", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.5, "s": "g"}')
text = ('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "x]"}], "displayTimeUnit": "ms", '
        '"baseTimeNanoseconds": %d,\n"traceEvents": [\n%s\n], "traceName": "a.json"}\n' % (base, ',\n'.join(events)))
open('kineto.json', 'w').write(text)
gzip.open('kineto.json.gz', 'wb').write(text.encode())
open('cut.json', 'w').write(text[:len(text) // 2])
# Of another process; of the same number at another time; with nothing of a GPU.
open('other.json', 'w').write(text.replace('"pid": %d,' % pid, '"pid": %d,' % (pid + 1)))
open('later.json', 'w').write(text.replace(str(base), str(base + 10 ** 12)))
open('never.json', 'w').write(text.replace(str(base), str(2 ** 63 - 1)).replace('"dur": ', '"dur": 9223372036854775'))
open('cpu.json', 'w').write(text.replace('"cat": "kernel"', '"cat": "gpu_user_annotation"'))
# The names of categories before PyTorch 1.11.
old = text.replace('"cuda_runtime"', '"Runtime"').replace('"kernel"', '"Kernel"')
open('old.json', 'w').write(old)
json.dump(wanted, open('wanted', 'w'))
EOF
"$build/tests/dump_trace" rec >records
for file in kineto.json kineto.json.gz old.json; do
	waylay export rec --with "$file" -o trace.pftrace 2>err || fail "export --with $file"
	"$python" "$WAYLAY_SOURCE/tests/perfetto/check_trace.py" trace.pftrace records || fail "the trace"
	"$python" - "$WAYLAY_SOURCE/tests/perfetto" <<'EOF' || fail "the rows of $file"
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import check_trace
replay = check_trace.Replay(check_trace.Trace(check_trace.load_schema(), 'trace.pftrace'))
got = []
for item in replay.gpu:
    call = replay.submitters.get(item.event)
    if call is None:
        sys.exit('%s has no arrow from its launch' % item.name)
    got.append([item.name, item.begin, item.end - item.begin, call.begin])
wanted = json.load(open('wanted'))
if sorted(got) != sorted(wanted):
    differ = [pair for pair in zip(sorted(got), sorted(wanted)) if pair[0] != pair[1]]
    sys.exit('%d rows of %d, %d differ, such as %s' % (len(got), len(wanted), len(differ), differ[:2]))
print('%d rows with their launches' % len(got))
EOF
	"$python" "$WAYLAY_SOURCE/tests/perfetto/check_with.py" trace.pftrace kineto.json || fail "the rows of $file"
	[ -z "${TRACE_PROCESSOR:-}" ] ||
		"$python" "$WAYLAY_SOURCE/tests/perfetto/check_processor.py" "$TRACE_PROCESSOR" trace.pftrace || fail "$file"
done

# --- what is no such file
rm trace.pftrace
for file in cut.json rec.jsonl out nowhere.json other.json later.json never.json cpu.json; do
	! waylay export rec --with "$file" -o trace.pftrace 2>err || fail "$file was taken"
	[ "$(wc -l <err)" = 1 ] || fail "words about $file"
	grep -q "$file: " err || fail "words about $file"
	[ ! -e trace.pftrace ] || fail "a trace with $file"
	cat err >>words
done
[ "$(grep -c 'give the trace of the same run' words)" = 3 ] || fail "words about other processes"
grep -q 'cpu.json: holds nothing that a GPU did' words || fail "words about a file without a GPU"
status=0
waylay export rec -f chrome --with kineto.json 2>err || status=$?
[ "$status" = 64 ] || fail "--with for Chrome: status $status"
