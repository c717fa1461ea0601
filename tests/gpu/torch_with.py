# SPDX-License-Identifier: Apache-2.0
"""A few training steps under torch.profiler, whose trace goes to kineto.json and kineto.json.gz; prints how many
rows of a GPU it has."""
import gzip
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
host = torch.randn(64, 256).pin_memory()


def step():
    loss = model(host.to('cuda', non_blocking=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(3):
    step()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    for _ in range(int(sys.argv[1])):
        step()
    torch.cuda.synchronize()
prof.export_chrome_trace('kineto.json')
with open('kineto.json', 'rb') as file:
    text = file.read()
with gzip.open('kineto.json.gz', 'wb') as file:
    file.write(text)
print(sum(event.get('cat') in ('kernel', 'gpu_memcpy', 'gpu_memset') and event['ph'] == 'X'
          for event in json.loads(text)['traceEvents']))
