# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's rows, window by window. How: argv[1].

    later    CUDA is in use before the first window
    first    the first window begins before CUDA does
    queued   each window begins while work is still queued, and ends while more is
"""
import collections
import sys

import torch
from torch.profiler import ProfilerActivity, profile

how = sys.argv[1]
x = host = None


def start():
    global x, host
    torch.manual_seed(1)
    x = torch.randn(256, 256, device="cuda")
    host = torch.empty(256, 256, pin_memory=True)
    torch.cuda.synchronize()


def work(steps):
    for _ in range(steps):
        y = torch.relu(x @ x)
        host.copy_(y, non_blocking=True)
        y.zero_()
        torch.nonzero(x[:8] > 0)
        y.sum().item()


def window(steps):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        if x is None:
            start()
        work(steps)
        if how == "queued":
            for _ in range(5):
                torch.relu(x)
        else:
            torch.cuda.synchronize()
    rows = collections.Counter()
    for event in prof.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA:
            rows[event.name().split("<")[0].split("(")[0]] += 1
    for name, count in sorted(rows.items()):
        print(count, name)
    print(sum(rows.values()), "rows")


if how != "first":
    start()
    work(11)
    torch.cuda.synchronize()
for number in range(4):
    if how == "queued" and number:
        torch.cuda._sleep(20_000_000)
        for _ in range(7):
            torch.relu(x)
    print("window", number)
    window(3 + number)
    work(5)
torch.cuda.synchronize()
work(7)
torch.cuda.synchronize()
