#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws two windows of the demo's trace as SVG: picture.py DEMO.json OUT.svg

DEMO.json is what `waylay export -f chrome` makes of the demo's recording. Left: a few calls of the
sampler that waits; right: one all-reduce of two ranks, each transfer from its post to its completion.
"""
import html
import json
import sys

WIDTH, LABEL, ROW, GAP, TOP = 1200, 150, 22, 8, 46
COLORS = {"nvtx": "#8e7cc3", "wait": "#d9534f", "copy": "#f0ad4e", "launch": "#5b9bd5", "ofi": "#6aa84f",
          "cq": "#c9d6c0", "other": "#9aa5b1"}
WAITS = ("Synchronize",)


def color(event):
    name, category = event["name"], event.get("cat", "")
    if category == "nvtx":
        return COLORS["nvtx"]
    if any(word in name for word in WAITS):
        return COLORS["wait"]
    for key in ("copy", "launch"):
        if key in category:
            return COLORS[key]
    if "cq" in category:
        return COLORS["cq"]
    return COLORS["ofi"] if category.startswith("ofi") else COLORS["other"]


def transfers(events):
    """Async pairs of each process: (begin, end, name), by the id that joins them."""
    begun, done = {}, []
    for event in events:
        key = (event.get("pid"), event.get("cat"), str(event.get("id", event.get("id2"))), event["name"])
        if event["ph"] == "b" and "xfer" in event.get("cat", ""):
            begun[key] = event["ts"]
        elif event["ph"] == "e" and key in begun:
            done.append((key[0], begun.pop(key), event["ts"], event["name"]))
    return done


def rows_of_slices(slices):
    """Depth of each slice by nesting."""
    stack = []
    for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1] <= event["ts"] + 1e-6:
            stack.pop()
        stack.append(event["ts"] + event["dur"])
        yield len(stack) - 1, event


class Panel:
    def __init__(self, left, width, begin, end, title):
        self.left, self.width, self.begin, self.end = left, width, begin, end
        self.out = [f'<text class="title" x="{left}" y="20">{html.escape(title)}</text>',
                    f'<text class="unit" x="{left + width}" y="20" text-anchor="end">{(end - begin) / 1000:.2f} ms</text>']
        self.y = TOP

    def x(self, at):
        return self.left + LABEL + (self.width - LABEL) * (at - self.begin) / (self.end - self.begin)

    def label(self, text):
        self.out.append(f'<text class="label" x="{self.left}" y="{self.y + 15}">{html.escape(text)}</text>')

    def bar(self, row, begin, end, name, fill):
        if end < self.begin or begin > self.end:
            return
        x0, x1 = self.x(max(begin, self.begin)), self.x(min(end, self.end))
        y = self.y + row * ROW
        self.out.append(f'<rect x="{x0:.1f}" y="{y}" width="{max(x1 - x0, 0.8):.1f}" height="{ROW - 3}" rx="2" fill="{fill}"/>')
        room = int((x1 - x0) / 6.3)
        if room >= 4:
            text = name if len(name) <= room else name[:room - 1] + "…"
            self.out.append(f'<text class="bar" x="{x0 + 3:.1f}" y="{y + 14}">{html.escape(text)}</text>')

    def next(self, rows):
        self.y += rows * ROW + GAP


def draw_sampler(panel, slices):
    panel.label("host thread")
    depth = 0
    for row, event in rows_of_slices(slices):
        panel.bar(row, event["ts"], event["ts"] + event["dur"], event["name"], color(event))
        if panel.begin <= event["ts"] <= panel.end:
            depth = max(depth, row + 1)
    panel.next(depth)
    panel.label("synchronizations")
    for event in slices:
        if any(word in event["name"] for word in WAITS):
            panel.bar(0, event["ts"], event["ts"] + event["dur"], event["name"], COLORS["wait"])
    panel.next(1)


def draw_rank(panel, rank, slices, moved):
    panel.label(f"rank {rank}: ranges")
    shown = [event for event in slices if event.get("cat") == "nvtx"]
    depth = 1
    for row, event in rows_of_slices(shown):
        panel.bar(row, event["ts"], event["ts"] + event["dur"], event["name"], color(event))
        if panel.begin <= event["ts"] <= panel.end:
            depth = max(depth, row + 1)
    panel.next(depth)
    panel.label("transfers")
    lanes = []
    for begin, end, name in sorted(moved):
        if end < panel.begin or begin > panel.end:
            continue
        lane = next((i for i, busy in enumerate(lanes) if busy <= begin), len(lanes))
        if lane >= 6:
            continue
        lanes[lane:lane + 1] = [end]
        panel.bar(lane, begin, end, name, COLORS["ofi"])
    panel.next(max(len(lanes), 1))


def main():
    events = json.load(open(sys.argv[1]))["traceEvents"]
    slices = {}
    for event in events:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
    sampler = next(s for s in slices.values() if any(e["name"] == "sampler-naive" for e in s))
    calls = [e for e in sampler if e["name"] == "sampler-naive"][3:6]
    left = Panel(10, 575, calls[0]["ts"] - 60, calls[-1]["ts"] + calls[-1]["dur"] + 60,
                 "A sampler that reads its counts back: two waits a call")
    draw_sampler(left, sampler)
    ranks = sorted(thread for thread, s in slices.items() if any(e["name"] == "allreduce" for e in s))
    # The call of median length: a typical one.
    reduces = sorted((e for e in slices[ranks[0]] if e["name"] == "allreduce"), key=lambda e: e["dur"])
    call = reduces[len(reduces) // 2]
    right = Panel(610, 580, call["ts"] - call["dur"] * 0.05, call["ts"] + call["dur"] * 1.05,
                  "An all-reduce of two ranks, each transfer from post to completion")
    moved = transfers(events)
    for rank, thread in enumerate(ranks[:2]):
        draw_rank(right, rank, slices[thread], [(b, e, n) for pid, b, e, n in moved if pid == thread[0]])
    height = max(left.y, right.y) + 6
    style = ("svg{background:#fff;font-family:ui-sans-serif,system-ui,sans-serif}.title{font-size:14px;font-weight:600;fill:#222}"
             ".unit,.label{font-size:12px;fill:#666}.bar{font-size:11px;fill:#111}")
    with open(sys.argv[2], "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
                  f'aria-label="Part of a Waylay trace"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>\n')
        out.write("\n".join(left.out + right.out))
        out.write("\n</svg>\n")


main()
