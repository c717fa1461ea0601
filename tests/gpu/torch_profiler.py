# SPDX-License-Identifier: Apache-2.0
"""A few steps under torch.profiler; prints how many rows of each kind it saw on the GPU."""
import collections

import torch
from torch.profiler import ProfilerActivity, profile


def main():
    x = torch.randn(512, 512, device="cuda")
    host = torch.empty(512, 512, pin_memory=True)
    torch.cuda.synchronize()
    rows = collections.Counter()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for _ in range(7):
            y = torch.relu(x @ x)
            host.copy_(y, non_blocking=True)
            y.sum().item()
        torch.cuda.synchronize()
    for event in prof.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA:
            rows[event.name().split("<")[0].split("(")[0]] += 1
    for name, count in sorted(rows.items()):
        print(count, name)


main()
