# SPDX-License-Identifier: Apache-2.0
"""What observers add to a training step, each in a process of its own, asked for steps in turn.

    training_compare.py NET[,NET...] PAIRS [NETS:]NAME=COMMAND...

COMMAND: put before the training program, may be empty; {net} in it becomes the net. NETS: for these alone.

All the processes run from the start; at any time one of them trains and the others wait. A pair is ten steps
with each side in the order A B B A, so twenty steps of each. The steps of "waylay" with recording off and on make
PAIRS pairs; every WAYLAY_TEST_PLAIN_EVERY-th time (5) "plain" takes part, every tenth all the others do. Of the
pairs' differences the median and the order statistics that hold it with 95 % are shown.
"""
import json
import math
import os
import select
import shlex
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10


class Side:
    """A process that trains when asked."""

    def __init__(self, net, name, command):
        self.net, self.name, self.error = net, name, open(f"{net}.{name}.err", "w+")
        self.verb = "profile" if name.startswith("torch.profiler") else "steps"
        self.process = subprocess.Popen(
            shlex.split(command.replace("{net}", net)) + [sys.executable, os.path.join(HERE, "training_step.py"), net],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.error, bufsize=0)
        self.text, self.alive = b"", True

    def line(self, seconds=120):
        """The next line it says, None if it ended or took too long."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                self.alive = False
                return None
            self.text += more
        line, self.text = self.text.split(b"\n", 1)
        return line.decode()

    def until_ready(self):
        line = ""
        while line is not None and line != "ready":
            line = self.line()
        if not self.alive:
            self.error.seek(0)
            print(f"{self.name}: left out: {self.error.read()[-600:]}", flush=True)

    def ask(self, what):
        self.process.stdin.write(what.encode() + b"\n")
        answer = self.line()
        if answer is None:
            sys.exit(f"{self.name} does not answer to {what}")
        return answer

    def steps(self):
        return [float(word) for word in self.ask(f"{self.verb} {STEPS}").split()]

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def bounds(values):
    """The median, and the order statistics that hold it with 95 %."""
    ordered, n = sorted(values), len(values)
    reach = 1.96 * math.sqrt(n) / 2
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def tell(net, what, base, other):
    """Two rows of [mean, median] of steps: how much more the other takes."""
    for which, name in enumerate(("", "by the median of steps")):
        differences = [100 * (b[which] / a[which] - 1) for a, b in zip(base, other)]
        median, low, high = bounds(differences)
        print(f"{net:7} {what if not which else '':38} {len(differences):4} pairs, {statistics.median(a[which] for a in base):8.3f} ms "
              f"a step without, {median:+7.2f} % (95 %: {low:+.2f} to {high:+.2f}) {name}", flush=True)


def recording(side, on):
    def run():
        side.ask(f"record {on}")
        return side.steps()
    return run


def measure(net, sides, pairs, plain_every):
    named = {side.name: side for side in sides}
    plain, waylay = named.get("plain"), named.get("waylay")
    others = [side for side in sides if side not in (plain, waylay)]
    rows = []
    for side in others:  # what a first window sets up is not of its steps
        side.steps()
    for pair in range(pairs):
        row = []
        if waylay:
            row += [("off", recording(waylay, 0)), ("on", recording(waylay, 1))]
        if plain and pair % plain_every == 0:
            row.append(("plain", plain.steps))
        if pair % 10 == 0:
            row += [(side.name, side.steps) for side in others]
        if pair % 2:
            row.reverse()
        times = {}
        for name, run in row + row[::-1]:
            times[name] = [a + b / 2 for a, b in zip(times.get(name, (0, 0)), run())]
        rows.append(times)
    with open(f"{net}.pairs.json", "w") as out:
        json.dump(rows, out)
    for what, base, other in (("Waylay, recording on against off", "off", "on"), ("Waylay against a process without", "plain", "on"),
                              ("Waylay + CUPTI against CUPTI", "cupti", "waylay+cupti"),
                              *((side.name, "plain", side.name) for side in others)):
        both = [times for times in rows if base in times and other in times]
        if both:
            tell(net, what, [times[base] for times in both], [times[other] for times in both])
    for side in sides:
        print(f"{net:7} {side.name:38} {float(side.ask('memory')):8.0f} MiB resident", flush=True)
    if waylay:
        print(f"{net:7} {60 + 2 * STEPS * pairs} steps recorded", flush=True)


def main():
    nets, pairs = sys.argv[1].split(","), int(sys.argv[2])
    all_sides = []
    for argument in sys.argv[3:]:
        name, command = argument.split("=", 1)
        only, _, name = name.rpartition(":")
        all_sides += [Side(net, name, command) for net in (only.split(",") if only else nets) if net in nets]
    for side in all_sides:
        side.until_ready()
    for net in nets:
        measure(net, [side for side in all_sides if side.alive and side.net == net], pairs,
                int(os.environ.get("WAYLAY_TEST_PLAIN_EVERY", "5")))
    for side in all_sides:
        side.end()


main()
