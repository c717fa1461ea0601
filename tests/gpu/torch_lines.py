# SPDX-License-Identifier: Apache-2.0
"""Waits whose line is not where the driver is called: inside PyTorch's own Python, on threads of its engine with
and without Python frames, on the thread that pins a DataLoader's batches. Where the user would look is marked.
"""
import torch
from torch import nn


class Looks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        grad.sum().item()  # LINE backward-in-python
        return grad * 2


def clip(parameters):
    for p in parameters:
        p.grad = torch.ones_like(p)
    nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)  # LINE clip


def product():
    x = torch.rand(1000, device="cuda", requires_grad=True)
    x.prod().backward()  # LINE engine
    return x.grad


def product_by_grad():
    x = torch.rand(1000, device="cuda", requires_grad=True)
    return torch.autograd.grad(x.prod(), x)  # LINE engine-grad


def python_backward():
    x = torch.rand(1000, device="cuda", requires_grad=True)
    Looks.apply(x).sum().backward()


def batches():
    data = torch.utils.data.TensorDataset(torch.rand(64, 1000))
    total = torch.zeros((), device="cuda")
    for (x,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        total += x.to("cuda", non_blocking=True).sum()
    return total.item()  # LINE total


def main():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).cuda()
    for name, call in (("clip", lambda: clip(list(model.parameters()))), ("engine", product), ("engine-grad", product_by_grad),
                       ("backward-in-python", python_backward), ("total", batches)):
        call()  # first uses wait elsewhere too
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(name)
        for _ in range(7 if name != "total" else 1):
            call()
        torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
