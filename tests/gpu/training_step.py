# SPDX-License-Identifier: Apache-2.0
"""A training step's time, to see what observers cost.

    training_step.py NET whole STEPS             median step of a plain run, in ms
    training_step.py NET profiler STEPS          the same under torch.profiler
    training_step.py NET paired PAIRS BLOCK      in a traced process: blocks of steps with recording off and
                                                 on in turn; the median difference of pairs and its 95 % bound

NET: small (60 tiny layers: bound by launches), gpt (GPT-2 small), resnet (ResNet-50). Random weights, bf16, a
DataLoader with workers and pinned memory, fused AdamW.
"""
import ctypes
import math
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
        return Gpt(), Data(lambda: torch.randint(0, 50257, (256,)), 50257), 8
    if name == "resnet":
        import torchvision
        image = torch.randn(3, 224, 224)
        return torchvision.models.resnet50(), Data(lambda: image, 1000), 64
    layers = [layer for _ in range(60) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(32, 10)), Data(lambda: torch.randn(32), 10), 16


class Trainer:
    def __init__(self, name):
        torch.manual_seed(1)
        self.model, data, batch = net_of(name)
        self.model.cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.batches = iter(torch.utils.data.DataLoader(data, batch_size=batch, num_workers=4, pin_memory=True,
                                                        prefetch_factor=8, persistent_workers=True))
        self.losses = []

    def step(self):
        x, y = next(self.batches)
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())
        if len(self.losses) == 10:  # as training loops do to show progress
            torch.stack(self.losses).mean().item()
            self.losses.clear()

    def block(self, steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / steps


def bounds(values):
    """The median, and the order statistics that hold it with 95 %."""
    ordered, n = sorted(values), len(values)
    reach = 1.96 * math.sqrt(n) / 2
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def main():
    name, how, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    trainer = Trainer(name)
    trainer.block(40)
    if how == "paired":
        record, steps, off, differences = ctypes.CDLL(None).waylay_record, int(sys.argv[4]), [], []
        for pair in range(count):
            times = {}
            for on in ((0, 1), (1, 0))[pair % 2]:
                record(on)
                times[on] = trainer.block(steps)
            off.append(times[0])
            differences.append(100 * (times[1] - times[0]) / times[0])
        record(1)
        median, low, high = bounds(differences)
        print(f"{name} paired: {count} pairs of {steps} steps, {statistics.median(off):.3f} ms a step without, "
              f"difference {median:+.2f} % (95 %: {low:+.2f} to {high:+.2f})", flush=True)
        return
    if how == "profiler":
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            times = [trainer.block(10) for _ in range(count // 10)]
    else:
        times = [trainer.block(10) for _ in range(count // 10)]
    print(f"{name} {how} {statistics.median(times):.4f}", flush=True)


main()
