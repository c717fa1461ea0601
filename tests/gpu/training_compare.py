# SPDX-License-Identifier: Apache-2.0
"""What observers add to a training step, each in a process of its own, asked for steps in turn.

    training_compare.py NET PAIRS NAME=COMMAND...     COMMAND: put before the training program, may be empty

All the processes run from the start; at any time one of them trains and the others wait. A pair is ten steps
with each side in the order A B B A, so twenty steps of each. "plain" is the side to compare with. With one named
"waylay", its own steps with recording off and on make PAIRS pairs, and on against plain as many; the others
take part in every fifth pair. Of the pairs' differences the median and the order statistics that hold it with
95 % are shown.
"""
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
        self.name, self.error = name, open(f"{net}.{name}.err", "w+")
        self.verb = "profile" if name.startswith("torch.profiler") else "steps"
        self.process = subprocess.Popen(
            shlex.split(command) + [sys.executable, os.path.join(HERE, "training_step.py"), net],
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
        return float(self.ask(f"{self.verb} {STEPS}"))

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


def tell(net, what, base, differences):
    median, low, high = bounds(differences)
    print(f"{net:7} {what:34} {len(differences):4} pairs, {statistics.median(base):8.3f} ms a step without, "
          f"{median:+7.2f} % (95 %: {low:+.2f} to {high:+.2f})", flush=True)


def recording(side, on):
    def run():
        side.ask(f"record {on}")
        return side.steps()
    return run


def main():
    net, pairs = sys.argv[1], int(sys.argv[2])
    sides = [Side(net, *argument.split("=", 1)) for argument in sys.argv[3:]]
    for side in sides:
        side.until_ready()
    sides = [side for side in sides if side.alive]
    plain = next((side for side in sides if side.name == "plain"), None)
    if not plain:
        sys.exit(f"{net}: no plain side to compare with")
    waylay = next((side for side in sides if side.name == "waylay"), None)
    others = [side for side in sides if side not in (plain, waylay)]
    base, off, on_off, on_plain = [], [], [], []
    compared = {side.name: [] for side in others}
    recorded_steps = 60

    for side in others:  # what a first window sets up is not of its steps
        side.steps()
    for pair in range(pairs):
        row = [("plain", plain.steps)]
        if waylay:
            row += [("off", recording(waylay, 0)), ("on", recording(waylay, 1))]
            recorded_steps += 2 * STEPS
        if pair % 5 == 0:
            row += [(side.name, side.steps) for side in others]
        if pair % 2:
            row.reverse()
        times = {}
        for name, run in row + row[::-1]:
            times[name] = times.get(name, 0) + run() / 2
        base.append(times["plain"])
        for name in compared.keys() & times.keys():
            compared[name].append(100 * (times[name] / times["plain"] - 1))
        if waylay:
            off.append(times["off"])
            on_off.append(100 * (times["on"] / times["off"] - 1))
            on_plain.append(100 * (times["on"] / times["plain"] - 1))
    if waylay:
        tell(net, "Waylay, recording on against off", off, on_off)
        tell(net, "Waylay against a process without", base, on_plain)
    for name, differences in compared.items():
        tell(net, name, base, differences)
    for side in sides:
        print(f"{net:7} {side.name:34} {float(side.ask('memory')):8.0f} MiB resident", flush=True)
        side.end()
    print(f"{net:7} {recorded_steps} steps recorded", flush=True)


main()
