#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tables: CSV, JSON lines and SQLite hold the same rows, which are those of the recording; docs/tables.md
# names every column; and what --from, --to, --range, --rank, --category and --max-size leave of it.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# Two processes, two ranges a process, waits and none.
job="set -e
RANK=0 WORLD_SIZE=2 $(sampler naive 7)
RANK=1 WORLD_SIZE=2 $(sampler fused 11)"
expect 0 waylay run -q --no-export --dir rec -- sh -c "$job"
fabric=rec
if [ -x "$build/waylay-coll-perf" ]; then
	expect 0 waylay run -q --no-export --dir fabric -- waylay-coll-perf --np 2 --minbytes 64K --maxbytes 64K \
		--iters 3 all_reduce
	fabric=fabric
fi

for dir in rec $fabric; do
	"$build/tests/dump_trace" "$dir" >"$dir.records" || fail "dump_trace"
	expect 0 waylay export "$dir" -f csv -o "$dir.csv"
	says err "$dir.csv: "
	expect 0 waylay export "$dir" -f jsonl -o "$dir.jsonl"
	expect 0 waylay export "$dir" -f jsonl -o "$dir.jsonl.gz"
	gzip -dc "$dir.jsonl.gz" | cmp - "$dir.jsonl" || fail "compressed JSON lines differ"
	if waylay export "$dir" -f sqlite -o "$dir.db" 2>err; then
		database=$dir.db
	else
		says err "this build has no SQLite"
		database=
	fi
	python3 - "$WAYLAY_SOURCE" "$dir.csv" "$dir.jsonl" "$dir.records" "$database" <<'EOF' || fail "tables of $dir"
import csv, json, os, re, sys
from collections import Counter, defaultdict

source, folder, lines, records, database = sys.argv[1:]
docs = open(os.path.join(source, 'docs/tables.md')).read()
tables = {}
for part in docs.split('\n## ')[1:]:
    columns = re.findall(r'^\| `(\w+)` \| (\w+) \|', part, re.M)
    if columns:
        tables[part.split('\n')[0]] = columns
if len(tables) != 11:
    sys.exit('docs/tables.md names %d tables' % len(tables))
if {name + '.csv' for name in tables} != set(os.listdir(folder)):
    sys.exit('tables differ from docs/tables.md: %s' % os.listdir(folder))

def typed(text, kind):
    if text == '':
        return None
    if kind == 'INT':
        return int(text)
    if kind == 'BOOL':
        return {'0': False, '1': True}[text]
    return json.loads(text) if kind == 'JSON' else text

from_json = defaultdict(list)
for line in open(lines):
    row = json.loads(line)
    name = row.pop('table')
    from_json[name].append({column: row.pop(column, None) for column, _ in tables[name]})
    if row:
        sys.exit('%s: columns that docs/tables.md does not name: %s' % (name, row))
for name, columns in tables.items():
    with open(os.path.join(folder, name + '.csv'), newline='') as file:
        rows = list(csv.reader(file))
    if rows[0] != [column for column, _ in columns]:
        sys.exit('%s: header %s' % (name, rows[0]))
    got = [{column: typed(value, kind) for (column, kind), value in zip(columns, row)} for row in rows[1:]]
    if got != from_json[name]:
        sys.exit('%s: CSV and JSON lines differ' % name)
if database:
    import sqlite3
    db = sqlite3.connect(database)
    for name, columns in tables.items():
        got = []
        for row in db.execute('SELECT * FROM %s ORDER BY rowid' % name):
            got.append({column: None if value is None else json.loads(value) if kind == 'JSON' else
                        bool(value) if kind == 'BOOL' else value for (column, kind), value in zip(columns, row)})
        if got != from_json[name]:
            sys.exit('%s: SQLite and JSON lines differ' % name)
    if db.execute('PRAGMA integrity_check').fetchone() != ('ok',):
        sys.exit('the database is damaged')

# Against the recording.
dumped = [json.loads(line) for line in open(records)]
wanted = [record for record in dumped if record['kind'] == 'record']
events = from_json['events']
def same(what, got, wanted):
    got, wanted = Counter(got), Counter(wanted)
    if got != wanted:
        sys.exit('%s: only in the table %s, only recorded %s' % (what, list(got - wanted)[:3], list(wanted - got)[:3]))
same('events', [(e['type'], e['form'], e['category'], e['name'], e['begin_ns'], e['end_ns'], e['dur_ns'])
                for e in events],
     [(r['type'], r['form'], r['category'], r['name'], r['begin'], r['end'], r['end'] - r['begin']) for r in wanted])
same('event numbers', [e['event'] for e in events], range(1, len(events) + 1))
stacks = defaultdict(list)
for frame in sorted(from_json['stacks'], key=lambda frame: -frame['depth']):
    stacks[(frame['process'], frame['stack'])].append(frame)
same('stacks', [(e['name'], e['begin_ns'], tuple((f['file'] or '', f['line'] or 0)
                                               for f in stacks.get((e['process'], e['stack']), ()))) for e in events],
     [(r['name'], r['begin'], tuple((frame[1], frame[2]) for frame in r['frames'])) for r in wanted])
for key, frames in stacks.items():
    if sum(frame['site'] for frame in frames) != 1:
        sys.exit('stack %s has no one site' % (key,))
same('synchronizations', [(s['name'], s['begin_ns'], s['held_ns']) for s in from_json['syncs']],
     [(r['name'], r['begin'], r['end'] - r['begin']) for r in wanted if r['cls'] == 1])
by_number = {e['event']: e for e in events}
for s in from_json['syncs']:
    if by_number[s['event']]['begin_ns'] != s['begin_ns'] or not s['rule'] or not s['waits_for']:
        sys.exit('synchronization without its event or its rule: %s' % s)
same('transfers', [(t['name'], t['post_ns'], t['posted_bytes']) for t in from_json['transfers']],
     [(r['name'], r['begin'], r['args']['bytes']) for r in wanted if r['type'] == 'ofi_post' and r['status'] >= 0])
same('registrations', [(m['name'], m['begin_ns'], m['cost_ns'], m['bytes']) for m in from_json['registrations']],
     [(r['name'], r['begin'], r['end'] - r['begin'], r['args']['bytes']) for r in wanted if r['type'] == 'ofi_mr_reg'])
same('ranges', [(g['name'], g['begin_ns']) for g in from_json['ranges']],
     [(r['name'], r['begin']) for r in wanted if r['type'] == 'nvtx_push'])
same('threads', [t['tid'] for t in from_json['threads']], [t['tid'] for t in dumped if t['kind'] == 'thread'])
same('processes', [p['pid'] for p in from_json['processes']], [p['pid'] for p in dumped if p['kind'] == 'process'])
print('%d events' % len(events))
EOF
done

# --- one table
expect 0 waylay export rec -f csv --table syncs -o syncs.csv
cmp syncs.csv rec.csv/syncs.csv || fail "one table differs from the same among all"
expect 0 waylay export rec -f csv --table syncs -o -
cmp out rec.csv/syncs.csv || fail "one table to standard output differs"
expect 0 waylay export rec -f jsonl --table syncs,ranges -o -
[ "$(grep -c -v -e '"table":"syncs"' -e '"table":"ranges"' out)" = 0 ] || fail "tables that were not asked for"

# --- mistakes
one_line 64 "several tables are several files" waylay export rec -f csv -o -
one_line 64 "'nix' is no table; there are meta, processes" waylay export rec -f csv --table nix
one_line 64 "--table is for csv, jsonl and sqlite" waylay export rec --table syncs
one_line 64 "--max-size is for perfetto and chrome" waylay export rec -f jsonl --max-size 1M
one_line 64 "sqlite is not compressed" waylay export rec -f sqlite --compress
one_line 64 "'lz4' is neither none, deflate nor zstd" waylay export rec --compress=lz4
one_line 64 "'12q' is no time" waylay export rec --from 12q
one_line 64 "'x' is no list of ranks" waylay export rec --rank x
one_line 64 "'cud' is no category" waylay export rec --category cud
one_line 64 "'0' is no size" waylay export rec --max-size 0
one_line 1 "no process has one of these ranks" waylay export rec --rank 2-7
one_line 1 "no range named 'nix'" waylay export rec --range nix
one_line 1 "leave nothing of a recording of" waylay export rec --from 1000
one_line 1 "waits, ranges and registrations alone take" waylay export rec --max-size 1k
[ ! -e waylay.pftrace ] || fail "a trace after a failure"
if [ -e rec.db ]; then
	one_line 1 "a database needs a file" waylay export rec -f sqlite -o -
	one_line 1 "a database needs a file" waylay export rec -f sqlite -o /dev/null
	one_line 1 "nowhere/x.db: No such file" waylay export rec -f sqlite -o nowhere/x.db
fi
one_line 1 "/dev/full: No space left on device" waylay export rec -f jsonl -o /dev/full
# Room for less than the tables need: a folder with nothing in it, and no database.
trap 'umount tiny 2>/dev/null' EXIT
if [ "$(id -u)" = 0 ] && mkdir tiny && mount -t tmpfs -o size=64k none tiny 2>/dev/null; then
	one_line 1 "No space left on device" waylay export "$fabric" -f csv -o tiny/csv
	[ "$(find tiny -type f | wc -l)" = 0 ] || fail "parts of tables were left"
	rmdir tiny/csv
	if [ -e rec.db ]; then
		one_line 1 "tiny/x.db: database or disk is full" waylay export "$fabric" -f sqlite -o tiny/x.db
		[ "$(find tiny -type f | wc -l)" = 0 ] || fail "a part of a database was left"
	fi
	umount tiny
fi

# --- selections: the same rows that the whole tables have there
python3 - <<'EOF' || fail "selections"
import json, subprocess, sys

def rows(*options):
    done = subprocess.run(['waylay', 'export', 'rec', '-f', 'jsonl', '-o', '-'] + list(options), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]

def events(found):
    return sorted((e['type'], e['name'], e['begin_ns'], e['end_ns']) for e in found if e['table'] == 'events')

def check(what, got, wanted):
    if got != wanted or not got:
        sys.exit('%s: %d events, not %d' % (what, len(got), len(wanted)))

whole = rows()
start = int([row['value'] for row in whole if row['table'] == 'meta' and row['key'] == 'start_ns'][0])
all_events = [e for e in whole if e['table'] == 'events']
begins = sorted(e['begin_ns'] for e in all_events)
low, high = begins[len(begins) // 3] - start, begins[len(begins) * 2 // 3] - start
check('--from --to', events(rows('--from', '%dns' % low, '--to', '%dns' % high)),
      events([e for e in all_events if e['end_ns'] >= start + low and e['begin_ns'] <= start + high]))
check('--category', events(rows('--category', 'cuda.sync,nvtx')),
      events([e for e in all_events if e['category'] in ('cuda_sync', 'nvtx')]))
check('--category cuda', events(rows('--category', 'cuda')),
      events([e for e in all_events if e['category'].startswith('cuda_')]))
for rank in 0, 1:
    process = [p['process'] for p in whole if p['table'] == 'processes' and p.get('rank') == rank][0]
    check('--rank', events(rows('--rank', str(rank))), events([e for e in all_events if e['process'] == process]))
name = [g['name'] for g in whole if g['table'] == 'ranges'][0]
windows = [(g['process'], g['begin_ns'], g['end_ns']) for g in whole if g['table'] == 'ranges' and g['name'] == name]
check('--range', events(rows('--range', name)),
      events([e for e in all_events if any(e['process'] == p and e['end_ns'] >= begin and e['begin_ns'] <= end
                                           for p, begin, end in windows)]))
print('%d events, %d instances of %s' % (len(all_events), len(windows), name))
EOF

# --- a limit is kept, the longest stay
python3 - <<'EOF' || fail "--max-size"
import json, os, subprocess, sys

subprocess.run(['waylay', 'export', 'rec', '-f', 'chrome', '-o', 'all.json'], check=True, stderr=subprocess.DEVNULL)
whole = json.load(open('all.json'))['traceEvents']
size = os.path.getsize('all.json')
rows = {(e['pid'], e['tid']) for e in whole if e['name'] == 'thread_name' and
        e['args']['name'].startswith('Synchronizations of ')}
waits = {(e['pid'], e['ts'], e['dur']) for e in whole if (e['pid'], e['tid']) in rows and e['ph'] == 'X'}
def slices(events):
    """Those that may be left out: no waits, no ranges."""
    return [(e['pid'], e['tid'], e['name'], e['ts'], e['dur']) for e in events if e['ph'] == 'X' and
            (e['pid'], e['ts'], e['dur']) not in waits and e['cat'] != 'nvtx']
for part in 0.9, 0.7, 0.5:
    limit = int(size * part)
    done = subprocess.run(['waylay', 'export', 'rec', '-f', 'chrome', '--max-size', str(limit), '-o', 'less.json'],
                          check=True, stderr=subprocess.PIPE)
    got = os.path.getsize('less.json')
    if not limit * 0.8 < got <= limit:
        sys.exit('%d bytes for a limit of %d' % (got, limit))
    left = slices(json.load(open('less.json'))['traceEvents'])
    if not set(left) <= set(slices(whole)):
        sys.exit('slices that were not there before')
    gone = set(slices(whole)) - set(left)
    shortest = min(dur for *_, dur in left)
    if max(dur for *_, dur in gone) > shortest * 1.1 + 0.001:
        sys.exit('a slice of %s us is gone, one of %s is left' % (max(dur for *_, dur in gone), shortest))
    if b'shortest of' not in done.stderr:
        sys.exit('nothing said of what is left out')
EOF
