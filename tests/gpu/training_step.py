# SPDX-License-Identifier: Apache-2.0
"""Training steps on request, to see what observers cost them (training_compare.py asks).

    training_step.py NET

Says "ready" once it is warm, then answers lines from its standard input:

    steps N       does N training steps, says the ms a step: the mean, and the median of the steps
    profile N     the same under torch.profiler
    record 0|1    in a traced process: recording off or on
    memory        says the resident set in MiB

NET: small (60 tiny layers: bound by launches), gpt (a GPT of 6 layers of GPT-2's width, 8,192 words a step),
gpt2 (GPT-2 small with 2,048 words a step: bound by launches on a large device), resnet (ResNet-50). Random
weights in bf16, a DataLoader with workers and pinned memory (small: data that lies on the device), fused AdamW.

So that what differs is the observer: the thread that trains has processors of its own, away from the workers
that load data and the thread that pins it, and Python's garbage collector runs between requests only.
"""
import ctypes
import gc
import os
import statistics
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50257, width=768, layers=12, heads=12, length=256):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.norm(self.blocks(self.words(ids) + self.places(at)))).mean(1)


class Data(torch.utils.data.Dataset):
    def __init__(self, make, classes):
        self.make, self.classes = make, classes

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        return self.make(), i % self.classes


def net_of(name):
    if name == "gpt":
        return Gpt(layers=6, length=1024), Data(lambda: torch.randint(0, 50257, (1024,)), 50257), 8
    if name == "gpt2":
        return Gpt(), Data(lambda: torch.randint(0, 50257, (256,)), 50257), 8
    if name == "resnet":
        import torchvision
        image = torch.randn(3, 224, 224).bfloat16()
        return torchvision.models.resnet50(), Data(lambda: image, 1000), 64
    layers = [layer for _ in range(60) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(32, 10)), Data(lambda: torch.randn(32), 10), 16


class Trainer:
    def __init__(self, name):
        torch.manual_seed(1)
        processors = sorted(os.sched_getaffinity(0))
        own, others = processors[-4:], processors[:-4] or processors
        self.model, data, batch = net_of(name)
        self.on_device = None
        os.sched_setaffinity(0, others)  # inherited by the loader's processes and its thread
        self.batches = iter(torch.utils.data.DataLoader(data, batch_size=batch, num_workers=4, pin_memory=True,
                                                        prefetch_factor=8, persistent_workers=True))
        first = next(self.batches)
        os.sched_setaffinity(0, own)
        if name == "small":
            self.batches, self.on_device = None, [part.to("cuda") for part in first]
            self.on_device[0] = self.on_device[0].to(torch.bfloat16)
        self.model.to("cuda").to(torch.bfloat16)
        if name == "resnet":
            self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.losses = []

    def batch(self):
        if self.on_device:
            return self.on_device
        x, y = next(self.batches)
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x, y

    def step(self):
        x, y = self.batch()
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())
        if len(self.losses) == 10:  # as training loops do to show progress
            torch.stack(self.losses).mean().item()
            self.losses.clear()

    def steps(self, count):
        torch.cuda.synchronize()
        times = [time.perf_counter()]
        for _ in range(count):
            self.step()
            times.append(time.perf_counter())
        torch.cuda.synchronize()
        mean = (time.perf_counter() - times[0]) * 1e3 / count
        return mean, statistics.median(b - a for a, b in zip(times, times[1:])) * 1e3


def resident_mib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main():
    trainer = Trainer(sys.argv[1])
    trainer.steps(60)
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        what, *argument = line.split()
        if what == "steps":
            print(*trainer.steps(int(argument[0])), flush=True)
        elif what == "profile":
            from torch.profiler import ProfilerActivity, profile
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
                ms = trainer.steps(int(argument[0]))
            print(*ms, flush=True)
        elif what == "record":
            ctypes.CDLL(None).waylay_record(int(argument[0]))
            print("recording", argument[0], flush=True)
        elif what == "memory":
            print(resident_mib(), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
