#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fused sampler beside PyTorch's ways of drawing the same, on one GPU in one run.

Prints a line a size: medians between device events in microseconds, for one sample and for a batch.

    naive     counts read back by the host: two nonzero calls a sample, a batch is a loop
    compiled  fixed shapes under torch.compile(mode="reduce-overhead")
    graph     fixed shapes in a CUDA graph
    fused     waylay-sampler-perf --variant fused, checked against its oracle

All gather whole rows. The ceilings are measured here too: labels read in order, rows gathered at random,
results written.
"""
import argparse
import csv
import io
import statistics
import subprocess
import sys

import torch
import triton
import triton.language as tl

DEVICE = "cuda"


def median_us(call, calls):
    """Median of the gaps between events around back-to-back calls."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) * 1e3 for a, b in zip(events, events[1:]))


def naive_one(x, labels, k):
    """One sample; the host waits for both counts."""
    positives = torch.nonzero(labels == 1).squeeze(1)
    negatives = torch.nonzero(labels == 0).squeeze(1)
    p = min(len(positives), k // 2)
    n = min(len(negatives), k - p)
    p = min(len(positives), k - n)
    positives = positives[torch.randperm(len(positives), device=labels.device)[:p]]
    negatives = negatives[torch.randperm(len(negatives), device=labels.device)[:n]]
    drawn = torch.cat((positives, negatives))
    drawn = drawn[torch.randperm(p + n, device=labels.device)]
    return x[drawn], labels[drawn], drawn


def naive(x, labels, k):
    """A batch, sample by sample."""
    return [naive_one(x[s], labels[s], k) for s in range(len(labels))]


def static(x, labels, k):
    """A batch in fixed shapes: [batch, n, d] and [batch, n] in, [batch, k, d] and [batch, k] out."""
    batch, n = labels.shape
    infinite = float("inf")
    keys = torch.rand(batch, n, device=labels.device)
    slots = torch.arange(k, device=labels.device).expand(batch, k)
    is_positive, is_negative = labels == 1, labels == 0
    have_positives = is_positive.sum(1, keepdim=True)
    have_negatives = is_negative.sum(1, keepdim=True)
    p = have_positives.clamp(max=k // 2)
    q = torch.minimum(have_negatives, k - p)
    p = torch.minimum(have_positives, k - q)
    positives = torch.topk(torch.where(is_positive, keys, infinite), k, largest=False).indices
    negatives = torch.topk(torch.where(is_negative, keys, infinite), k, largest=False).indices
    drawn = torch.where(slots < p, positives, negatives.gather(1, (slots - p).clamp(min=0)))
    order = torch.topk(torch.rand(batch, k, device=labels.device), k, largest=False).indices
    drawn = drawn.gather(1, order)
    rows = x.gather(1, drawn.unsqueeze(2).expand(batch, k, x.shape[2]))
    return rows, labels.gather(1, drawn), drawn


def in_graph(call):
    """The call, captured; replaying it draws anew."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


@triton.jit
def gather_rows(x, index, out, count, ROWS: tl.constexpr, D: tl.constexpr):
    """Reads rows at random and keeps only their sum."""
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    item = tl.load(index + at, mask=at < count, other=0)
    rows = tl.load(x + item[:, None] * D + tl.arange(0, D)[None, :])
    tl.store(out + tl.program_id(0), tl.sum(tl.sum(rows, 1), 0))


def ceilings(dim):
    """Bytes a second read in order and written, rows a second gathered at random."""
    big = torch.empty(1 << 29, device=DEVICE)
    read = big.numel() * 8 / median_us(big.view(torch.float64).sum, 20) / 2 * 1e6
    write = big.numel() * 4 / median_us(big.zero_, 20) * 1e6
    del big
    x = torch.randn(10_000_000, dim, device=DEVICE)
    index = torch.randint(0, len(x), (1 << 22,), device=DEVICE, dtype=torch.int32)
    best = float("inf")
    for rows in (32, 64, 128, 256):
        out = torch.empty(len(index) // rows, device=DEVICE)
        grid = (len(out),)
        best = min(best, median_us(lambda: gather_rows[grid](x, index, out, len(index), rows, dim), 20))
    return read, write, len(index) / best * 1e6


def fused(program, n, batch, dim, calls):
    """Our time, and whether its results are the oracle's."""
    run = subprocess.run([program, "--backend", "cuda", "--variant", "fused", "--check", "--csv", "--n", str(n),
                          "--batch", str(batch), "--dim", str(dim), "--calls", str(calls)],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{program} failed: {run.stderr}")
    row = next(csv.DictReader(io.StringIO(run.stdout)))
    assert row["check"] == "ok", row
    return float(row["device_us"])


def peers(n, batch, dim, forms):
    """Median times of the forms asked for."""
    x = torch.randn(batch, n, dim, device=DEVICE)
    labels = torch.randint(0, 2, (batch, n), device=DEVICE)
    k = n // 10
    size = n * batch
    calls = 5 if size > 3e7 else 15 if size > 3e5 else 50
    times = {}
    if "naive" in forms:
        times["naive"] = median_us(lambda: naive(x, labels, k), 3 if batch > 1 else calls)
    if "compiled" in forms:
        torch._dynamo.reset()
        torch._dynamo.mark_static_address(x)
        torch._dynamo.mark_static_address(labels)
        compiled = torch.compile(lambda: static(x, labels, k), mode="reduce-overhead")
        times["compiled"] = median_us(compiled, calls)
    if "graph" in forms:
        times["graph"] = median_us(in_graph(lambda: static(x, labels, k)), calls)
    return times


def main():
    """Runs every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of waylay-sampler-perf")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--forms", default="naive,compiled,graph")
    args = parser.parse_args()
    forms = args.forms.split(",")
    read, write, gather = ceilings(args.dim)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}: reads {read * 1e-9:.0f} GB/s, writes "
          f"{write * 1e-9:.0f} GB/s, gathers {gather * 1e-9:.2f} G rows/s of {4 * args.dim} bytes")
    print(f"{'n':>9} {'batch':>5} {'fused':>9}" + "".join(f" {form:>9}" for form in forms) +
          f" {'best/fused':>10} {'ceilings':>9} {'fused/ceil.':>11}")
    for n in map(int, args.sizes.split(",")):
        for batch in map(int, args.batches.split(",")):
            k = n // 10
            ours = fused(args.program, n, batch, args.dim, 50)
            floor = batch * (n * 8 / read + k / gather + k * (4 * args.dim + 16) / write) * 1e6
            times = peers(n, batch, args.dim, forms)
            torch.cuda.empty_cache()
            print(f"{n:9} {batch:5} {ours:9.1f}" + "".join(f" {times[form]:9.1f}" for form in forms) +
                  f" {min(times.values()) / ours:10.1f} {floor:9.1f} {ours / floor:11.2f}", flush=True)


if __name__ == "__main__":
    main()
