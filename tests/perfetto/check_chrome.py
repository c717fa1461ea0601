#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Strict check of a Chrome trace (JSON object form, also gzipped).

  check_chrome.py TRACE [DUMP]

The file is valid JSON; times are nanoseconds but for steps that rounding takes away; complete slices of
one thread nest, to the nanosecond and also in the doubles that viewers calculate with; asynchronous
pairs, arrows and stack frames match by their ids; and slices, instants, synchronizations, transfers and
registrations are those of the recordings (DUMP is made by dump_trace). Exits 0 or 1.
"""
import gzip
import json
import sys
from collections import Counter, defaultdict
from decimal import Decimal

sys.dont_write_bytecode = True  # the sources stay as they are

from check_trace import WAITS, Record, Wrong, compare, device_name, expect_thread

PHASES = {'M', 'X', 'i', 'b', 'e', 's', 'f', 'C'}
MOMENT = 100    # events of no length at one nanosecond before they move on


def refuse(text):
    raise Wrong('%s is no JSON' % text)


HALF = Decimal('0.5')


def nanoseconds(value, what, most=Decimal(0)):
    number = value * 1000
    whole = int(number.to_integral_value())
    if abs(number - whole) > most or number < 0:
        raise Wrong('%s is %s us: not whole nanoseconds' % (what, value))
    return whole


def slice_times(event):
    """Begin and end in nanoseconds, which a few steps below a nanosecond must not change."""
    ts, dur = Decimal(event['ts']), Decimal(event['dur'])
    begin = nanoseconds(ts, 'ts', HALF / 2)
    end = nanoseconds(ts + dur, 'ts + dur', HALF / 2)
    if abs((ts + dur) * 1000 - end) + abs(ts * 1000 - begin) >= HALF:
        raise Wrong('dur is %s us: does not round to its nanoseconds' % dur)
    if end - begin != nanoseconds(dur, 'dur', HALF):
        raise Wrong('dur is %s us: not the nanoseconds between begin and end' % dur)
    return begin, end


class Chrome:
    def __init__(self, path):
        opened = gzip.open if path.endswith('.gz') else open
        with opened(path, 'rb') as file:
            self.top = json.loads(file.read().decode('utf-8'), parse_float=Decimal,
                                  parse_int=Decimal, parse_constant=refuse)
        self.base = int(self.top['metadata']['start_boottime_ns'])
        self.slices = defaultdict(list)
        self.instants = defaultdict(list)
        self.pairs = {}
        self.arrows = defaultdict(dict)
        self.names = {}
        self.processes = {}
        self.counters = 0
        for event in self.top['traceEvents']:
            try:
                self.event(event)
            except (Wrong, KeyError) as error:
                raise Wrong('%s: %r' % (error, event)) from None
        self.check_nesting()
        self.check_pairs()
        self.check_arrows()

    def event(self, event):
        phase = event['ph']
        if phase not in PHASES:
            raise Wrong('a phase of no known meaning')
        pid, tid = int(event['pid']), int(event['tid'])
        if pid <= 0 or tid <= 0 or pid >= 2 ** 32 or tid >= 2 ** 32:
            raise Wrong('pid or tid out of range')
        key = (pid, tid)
        if phase != 'X':
            begin = nanoseconds(Decimal(event['ts']), 'ts')
        if phase == 'M':
            self.metadata(event, key)
        elif phase == 'X':
            self.slices[key].append(slice_times(event) + (event,))
        elif phase == 'i':
            if event['s'] != 't':
                raise Wrong('an instant that is not its thread\'s')
            self.instants[key].append((begin, event))
        elif phase in 'be':
            pair = self.pairs.setdefault((event['cat'], event['id']), {})
            if phase in pair:
                raise Wrong('an id used twice')
            pair[phase] = (begin, pid, event)
        elif phase in 'sf':
            arrow = self.arrows[(event['cat'], event['name'], event['id'])]
            if phase in arrow:
                raise Wrong('an arrow with two of one end')
            arrow[phase] = (begin, key)
        else:
            value = event['args']['value']
            if value != int(value) or value < 0:
                raise Wrong('a counter below zero')
            self.counters += 1
        if 'sf' in event and str(event['sf']) not in self.top['stackFrames']:
            raise Wrong('a stack frame that is not there')

    def metadata(self, event, key):
        if event['name'] == 'thread_name':
            if key in self.names:
                raise Wrong('a thread named twice')
            self.names[key] = event['args']['name']
        elif event['name'] == 'process_name':
            if key[0] in self.processes:
                raise Wrong('a process named twice')
            self.processes[key[0]] = event['args']['name']

    def check_nesting(self):
        for key, slices in self.slices.items():
            if key not in self.names:
                raise Wrong('thread %s has no name' % (key,))
            stack = []
            slices.sort(key=lambda item: (item[0], -item[1]))
            for begin, end, event in slices:
                while stack and stack[-1] <= begin and not (stack[-1] == begin == end):
                    stack.pop()
                if stack and end > stack[-1]:
                    raise Wrong('%s at %d of thread %s overlaps the slice around it' %
                                (event['name'], begin, key))
                stack.append(end)
            self.check_doubles(key, [event for _, _, event in slices])

    def check_doubles(self, key, events):
        """As viewers do that calculate with doubles, add begins and durations, count from a row's first
        begin, and let what ends at a time end before what begins then, unless they are one."""
        first = min(float(event['ts']) for event in events)
        moments, lengths = [], {}
        for number, event in enumerate(events):
            begin = float(event['ts']) - first
            end = begin + float(event['dur'])
            for time in begin, end:
                if lengths.setdefault(time, end > begin) != (end > begin):
                    raise Wrong('%s at %s of thread %s: one has no length, another begins or ends there' %
                                (event['name'], event['ts'], key))
            moments.append((begin, 1 + (end == begin), -end, number, True))
            moments.append((end, 2 if end == begin else 0, -begin, number, False))
        stack = []
        for _, _, _, number, opens in sorted(moments, key=lambda moment: moment[:3]):
            if opens:
                stack.append(number)
            elif stack.pop() != number and float(events[number]['dur']):
                raise Wrong('%s at %s of thread %s ends around another, in doubles' %
                            (events[number]['name'], events[number]['ts'], key))

    def check_pairs(self):
        for name, pair in self.pairs.items():
            if set(pair) != {'b', 'e'}:
                raise Wrong('pair %s has no other half' % (name,))
            if pair['e'][0] < pair['b'][0] or pair['b'][1] != pair['e'][1]:
                raise Wrong('pair %s ends before it begins, or elsewhere' % (name,))
        for frame in self.top['stackFrames'].values():
            if 'parent' in frame and str(frame['parent']) not in self.top['stackFrames']:
                raise Wrong('a frame whose parent is not there')

    def check_arrows(self):
        for name, arrow in self.arrows.items():
            if set(arrow) != {'s', 'f'}:
                raise Wrong('arrow %s has one end' % (name,))
            (start, from_key), (finish, to_key) = arrow['s'], arrow['f']
            if not any(begin < start < end for begin, end, _ in self.slices[from_key]):
                raise Wrong('arrow %s does not start inside a slice' % (name,))
            if not any(begin <= finish <= end for begin, end, _ in self.slices[to_key]):
                raise Wrong('arrow %s ends at no slice' % (name,))
            if finish <= start:
                raise Wrong('arrow %s goes back in time' % (name,))

    def of_thread(self, key):
        """Slices without the further pieces of ranges; and everything that is an instant."""
        slices, points = [], [(event['name'], begin) for begin, event in self.instants[key]]
        for begin, end, event in self.slices[key]:
            if event['cat'] == 'ofi_cq' and event['name'] == 'ofi_completion':
                points.append((event['name'], begin))
            elif not event['args'].get('continued'):
                slices.append((event['name'], begin, end))
        return slices, points


def shift(base, records):
    """What has no length, by name and time; past a hundred at one nanosecond they are moved on."""
    points, at, seen = [], None, 0
    for record in records:
        if record.begin != record.end or record.form not in ('instant', 'call') or record.run:
            continue
        seen = seen + 1 if record.begin == at else 0
        at = record.begin
        points.append((record, record.begin + seen // MOMENT - base))
    return points


class Against:
    def __init__(self, chrome, path):
        self.chrome = chrome
        self.lines = defaultdict(list)
        with open(path, encoding='utf-8', errors='replace') as file:
            for text in file:
                line = json.loads(text)
                self.lines[line['kind']].append(line)
        self.records = len(self.lines['record'])

    def run(self):
        base = self.chrome.base
        by_thread = defaultdict(list)
        of_devices = []
        for line in self.lines['record']:
            if line['category'] == 'gpu':
                of_devices.append(Record(line))
            else:
                by_thread[(line['pid'], line['tid'])].append(Record(line))
        compare('device work', [(key[0], event['name'], begin, end, event['cat'])
                                for key, slices in self.chrome.slices.items()
                                if self.chrome.names[key].startswith('GPU ') for begin, end, event in slices],
                [(record.pid, device_name(record), record.begin - base, record.end - base, 'gpu')
                 for record in of_devices if record.type != 'gpu_stream'])
        threads = {(line['pid'], line['tid']) for line in self.lines['thread']}
        ends = {line['pid']: line['end'] for line in self.lines['process']}
        compare('processes', self.chrome.processes, ends)
        rows = {key for key, name in self.chrome.names.items()
                if not name.startswith(('Synchronizations of ', 'GPU '))}
        compare('threads', rows, threads)
        for key in threads:
            records = by_thread[key]
            end = max([ends[key[0]]] + [record.end for record in records])
            slices, _, cut = expect_thread(records, end)
            got, points = self.chrome.of_thread(key)
            if cut:
                compare('slices of thread %s' % (key,), [item[0] for item in got],
                        [record.name for record in slices])
            else:
                moved = {id(record): time for record, time in shift(base, records)}
                compare('slices of thread %s' % (key,), got,
                        [(record.name, moved.get(id(record), record.begin - base),
                          moved.get(id(record), record.end - base)) for record in slices])
            compare('instants of thread %s' % (key,), points,
                    [(record.name, time) for record, time in shift(base, records)
                     if record.form == 'instant'])
        self.whole(base, [record for records in by_thread.values() for record in records])

    def whole(self, base, records):
        waits = [(event['name'], begin, end) for key, slices in self.chrome.slices.items()
                 if self.chrome.names[key].startswith('Synchronizations of ')
                 for begin, end, event in slices]
        compare('synchronizations', waits,
                [(record.name, record.begin - base, record.end - base) for record in records
                 if record.cls == WAITS and not record.run])
        pairs = Counter((pair['b'][2]['name'], pair['b'][0], pair['b'][2]['cat'])
                        for pair in self.chrome.pairs.values())
        compare('asynchronous pairs', pairs.elements(),
                [(record.name, record.begin - base, record.category) for record in records
                 if record.type in ('ofi_post', 'ofi_mr_reg') and record.status >= 0 or
                 record.type == 'nvtx_start' or record.run])


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 64
    try:
        chrome = Chrome(sys.argv[1])
        against = None
        if len(sys.argv) == 3:
            against = Against(chrome, sys.argv[2])
            against.run()
    except Wrong as error:
        print('check_chrome: %s: %s' % (sys.argv[1], error))
        return 1
    print('check_chrome: %d slices, %d instants, %d pairs, %d arrows, %d counter values%s' %
          (sum(map(len, chrome.slices.values())), sum(map(len, chrome.instants.values())),
           len(chrome.pairs), len(chrome.arrows), chrome.counters,
           '; equal to %d records' % against.records if against else ''))
    return 0


if __name__ == '__main__':
    sys.exit(main())
