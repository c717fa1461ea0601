#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step's balanced sampler in PyTorch, in two forms that draw by the same rule.

    naive    asks the device how many positives and negatives there are: torch.nonzero returns a tensor of
             that size, so the host must wait for it, twice a step.
    static   works on fixed shapes: keys of the items that are not of the class are infinite, counts stay on
             the device, and slots that nothing fills hold -1. The host never waits.

Each step is an NVTX range named "step". To see the waits, and to hold a job to none:

    waylay run -- python3 sampler_torch.py --form naive
    waylay check --range step --max-syncs 0 waylay-out

Of P positives and Q negatives, p and n are drawn:
    p0 = min(P, k // 2);  n = min(Q, k - p0);  p = min(P, k - n)
"""
import argparse
import contextlib
import sys

import torch


def sample_naive(x, labels, k):
    """Draws up to k items; returns features and labels, as many as were drawn."""
    positives = torch.nonzero(labels == 1).squeeze(1)
    negatives = torch.nonzero(labels == 0).squeeze(1)
    p = min(len(positives), k // 2)
    n = min(len(negatives), k - p)
    p = min(len(positives), k - n)
    positives = positives[torch.randperm(len(positives), device=labels.device)[:p]]
    negatives = negatives[torch.randperm(len(negatives), device=labels.device)[:n]]
    drawn = torch.cat((positives, negatives))
    drawn = drawn[torch.randperm(p + n, device=labels.device)]
    return x[drawn], labels[drawn]


def smallest(keys, k):
    """Indices of the k smallest keys in order; index 0 again and again past the end of keys."""
    found = torch.topk(keys, min(k, len(keys)), largest=False).indices
    return torch.nn.functional.pad(found, (0, k - len(found)))


def sample_static(x, labels, k):
    """Draws up to k items; returns k rows and labels. Empty slots come last: zeros, label -1."""
    infinite = float("inf")
    keys = torch.rand(len(labels), device=labels.device)
    slots = torch.arange(k, device=labels.device)
    have_positives = (labels == 1).sum()
    have_negatives = (labels == 0).sum()
    p = have_positives.clamp(max=k // 2)
    n = torch.minimum(have_negatives, k - p)
    p = torch.minimum(have_positives, k - n)
    positives = smallest(torch.where(labels == 1, keys, infinite), k)
    negatives = smallest(torch.where(labels == 0, keys, infinite), k)
    drawn = torch.where(slots < p, positives, negatives[(slots - p).clamp(min=0)])
    order = torch.where(slots < p + n, torch.rand(k, device=labels.device), infinite).argsort()
    drawn = drawn[order]
    filled = slots < p + n
    rows = torch.where(filled.unsqueeze(1), x[drawn], torch.zeros((), dtype=x.dtype, device=x.device))
    return rows, torch.where(filled, labels[drawn], -1)


@contextlib.contextmanager
def nvtx_range(name, on):
    """An NVTX range, where there is a device."""
    if on:
        torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        if on:
            torch.cuda.nvtx.range_pop()


def main():
    """Runs the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=("naive", "static"), default="naive")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3, help="steps before these, in ranges named \"warmup\"")
    parser.add_argument("--n", type=int, default=100000, help="items to draw from")
    parser.add_argument("--k", type=int, help="items to draw (n / 10)")
    parser.add_argument("--dim", type=int, default=16, help="features an item")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    k = args.n // 10 if args.k is None else args.k
    if args.n < 1 or k < 0:
        parser.error("--n must be at least 1 and --k at least 0")
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("sampler_torch.py: PyTorch finds no CUDA device; --device cpu runs without one")
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    x = torch.randn(args.n, args.dim, device=device)
    labels = torch.randint(0, 2, (args.n,), device=device)
    weight = torch.zeros(args.dim, device=device)
    sample = sample_naive if args.form == "naive" else sample_static
    for step in range(-args.warmup, args.steps):
        with nvtx_range("warmup" if step < 0 else "step", device.type == "cuda"):
            rows, drawn = sample(x, labels, k)
            # a step's worth of work: push the weights towards the class means
            weight += 0.01 * ((drawn == 1).to(x.dtype) - (drawn == 0).to(x.dtype)) @ rows
    if device.type == "cuda":
        torch.cuda.synchronize()
    positives = int((drawn == 1).sum())
    print(f"{args.form}: {args.steps} steps, the last drew {int((drawn >= 0).sum())} items, {positives} positive, "
          f"|weight| {float(weight.norm()):.4f}")


if __name__ == "__main__":
    main()
