# SPDX-License-Identifier: Apache-2.0
"""Operations of PyTorch, each in a range of its own; how often torch's debug mode warned of each, as JSON."""
import json
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F

CALLS = 3
device = torch.device("cuda")
torch.manual_seed(1)
x = torch.randn(64, 64, device=device)
z = torch.ones((), device=device)
mask = x > 0
index = torch.tensor([0, 1, 2], device=device)
counts = torch.tensor([1, 2, 3], device=device)
ints = torch.randint(0, 9, (64,), device=device)
spd = x @ x.T + 64 * torch.eye(64, device=device)
pinned = torch.empty(64, 64, pin_memory=True)
pinned_big = torch.empty(128, 64, pin_memory=True)
pageable = torch.empty(64, 64)
big = torch.empty(4 << 20)
small = torch.empty(4 << 10)
value = torch.tensor(2.0, device=device)
sparse = torch.eye(64, device=device).to_sparse_csr()
model = torch.nn.Linear(64, 64).to(device)
adam = torch.optim.Adam(model.parameters(), fused=True)
scaler = torch.amp.GradScaler("cuda")
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
conv = torch.nn.Conv2d(3, 8, 3).to(device)
image = torch.randn(2, 3, 32, 32, device=device)
stream = torch.cuda.Stream()
dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
numbers = {}


def backward():
    model(x).sum().backward()


def scaler_step():
    sgd.zero_grad(set_to_none=False)
    scaler.scale(model(x).sum()).backward()
    scaler.step(sgd)
    scaler.update()


def event_sync():
    event = torch.cuda.Event()
    event.record()
    event.synchronize()


def event_query():
    event = torch.cuda.Event()
    event.record()
    event.query()


def alloc_fresh():
    numbers["n"] = numbers.get("n", 0) + 1
    torch.empty((512 << 20) + numbers["n"] * (32 << 20), dtype=torch.uint8, device=device)


def loader():
    for (batch,) in torch.utils.data.DataLoader(dataset, batch_size=32, pin_memory=True):
        batch.to(device, non_blocking=True)


def gather_objects():
    dist.all_gather_object([None], {"a": 1})


def assign_scalar():
    x.clone()[mask] = 1


def assign_device():
    x.clone()[mask] = value


OPERATIONS = [
    ("x.item() (sum)", lambda: x.sum().item()),
    ("float(z)", lambda: float(z)),
    ("if z: (bool)", lambda: bool(z)),
    ("x.cpu()", lambda: x.cpu()),
    ("x.tolist()", lambda: x.tolist()),
    ("repr(x)", lambda: repr(x)),
    ("x.to('cpu',non_blocking=True)", lambda: x.to("cpu", non_blocking=True)),
    ("pinned.copy_(x,non_blocking)", lambda: pinned.copy_(x, non_blocking=True)),
    ("pageable.copy_(x,non_blocking)", lambda: pageable.copy_(x, non_blocking=True)),
    ("pageable 16MB .to(cuda)", lambda: big.to(device)),
    ("pageable 16MB .to(cuda,non_blocking)", lambda: big.to(device, non_blocking=True)),
    ("pageable 16KB .to(cuda)", lambda: small.to(device)),
    ("pageable 16KB .to(cuda,nb)", lambda: small.to(device, non_blocking=True)),
    ("pinned .to(cuda)", lambda: pinned.to(device)),
    ("pinned .to(cuda,nb)", lambda: pinned.to(device, non_blocking=True)),
    ("pinned[::2] .to(cuda,nb)", lambda: pinned_big[::2].to(device, non_blocking=True)),
    ("torch.tensor(3.14,device)", lambda: torch.tensor(3.14, device=device)),
    ("torch.full((),3.14)", lambda: torch.full((), 3.14, device=device)),
    ("torch.arange(10,device)", lambda: torch.arange(10, device=device)),
    ("x[[0,1,2]] (list index)", lambda: x[[0, 1, 2]]),
    ("x[idx device]", lambda: x[index]),
    ("x[mask]", lambda: x[mask]),
    ("x[mask]=1", assign_scalar),
    ("x[mask]=dev scalar", assign_device),
    ("nonzero", lambda: torch.nonzero(mask)),
    ("nonzero_static", lambda: torch.nonzero_static(mask, size=16)),
    ("where(cond)", lambda: torch.where(mask)),
    ("masked_select", lambda: torch.masked_select(x, mask)),
    ("masked_fill", lambda: x.masked_fill(mask, 0)),
    ("unique", lambda: torch.unique(ints)),
    ("bincount", lambda: torch.bincount(ints)),
    ("histc", lambda: torch.histc(x, 10)),
    ("repeat_interleave(tensor)", lambda: torch.repeat_interleave(index, counts)),
    ("repeat_interleave(out size)", lambda: torch.repeat_interleave(index, counts, output_size=6)),
    ("randperm 20000", lambda: torch.randperm(20000, device=device)),
    ("multinomial", lambda: torch.multinomial(x.abs(), 2)),
    ("topk", lambda: torch.topk(x, 3)),
    ("sort", lambda: torch.sort(x)),
    ("cumsum", lambda: torch.cumsum(x, 0)),
    ("torch.equal", lambda: torch.equal(x, x)),
    ("allclose", lambda: torch.allclose(x, x)),
    ("isnan().any() -> bool", lambda: bool(x.isnan().any())),
    ("one_hot", lambda: F.one_hot(ints)),
    ("embedding", lambda: F.embedding(index, x)),
    ("linalg.inv", lambda: torch.linalg.inv(spd)),
    ("linalg.inv_ex", lambda: torch.linalg.inv_ex(spd)),
    ("cholesky", lambda: torch.linalg.cholesky(spd)),
    ("svd", lambda: torch.linalg.svd(x)),
    ("eigh", lambda: torch.linalg.eigh(spd)),
    ("solve", lambda: torch.linalg.solve(spd, x)),
    ("to_sparse", lambda: x.to_sparse()),
    ("sparse.mm", lambda: torch.sparse.mm(sparse, x)),
    ("backward", backward),
    ("clip_grad_norm_", lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)),
    ("clip_grad_norm_(error_if_nonfinite)",
     lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)),
    ("Adam.step", lambda: adam.step()),
    ("zero_grad", lambda: model.zero_grad(set_to_none=False)),
    ("GradScaler step", scaler_step),
    ("cuda.synchronize()", lambda: torch.cuda.synchronize()),
    ("stream.synchronize()", lambda: stream.synchronize()),
    ("event.synchronize()", event_sync),
    ("event.query()", event_query),
    ("empty_cache()", lambda: torch.cuda.empty_cache()),
    ("memory_allocated()", lambda: torch.cuda.memory_allocated()),
    ("mem_get_info()", lambda: torch.cuda.mem_get_info()),
    ("alloc 512MB fresh", alloc_fresh),
    ("pin_memory() 16MB", lambda: big.pin_memory()),
    ("DataLoader(pin_memory)", loader),
    ("conv2d", lambda: conv(image)),
    ("matmul", lambda: x @ x),
    ("generator seed", lambda: torch.cuda.manual_seed(3)),
    ("state_dict cpu", lambda: {k: v.cpu() for k, v in model.state_dict().items()}),
]
COLLECTIVES = [
    ("nccl all_reduce", lambda: dist.all_reduce(x)),
    ("nccl all_reduce async+wait", lambda: dist.all_reduce(x, async_op=True).wait()),
    ("nccl barrier", lambda: dist.barrier()),
    ("nccl all_gather_object", gather_objects),
    ("nccl broadcast_object_list", lambda: dist.broadcast_object_list([{"a": 1}], src=0)),
]


def warned(call):
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(w.message) for w in caught)


def main():
    torch.cuda.set_device(0)  # the first use of the debug mode says once what it is
    with tempfile.TemporaryDirectory() as folder:
        try:
            dist.init_process_group("nccl", init_method="file://" + os.path.join(folder, "store"), rank=0,
                                    world_size=1, device_id=torch.device("cuda:0"))
            OPERATIONS.extend(COLLECTIVES)
        except (RuntimeError, ValueError) as error:
            print("no NCCL:", error, file=sys.stderr)
        warned(lambda: None)
        result = {}
        for name, call in OPERATIONS:
            try:
                if name.startswith("clip_grad") or name == "Adam.step":
                    backward()
                for _ in range(2):
                    call()
                torch.cuda.synchronize()
                warns = 0
                for _ in range(CALLS):
                    torch.cuda.nvtx.range_push("op " + name)
                    warns += warned(call)
                    torch.cuda.nvtx.range_pop()
                result[name] = warns / CALLS
            except Exception as error:  # the rest is still worth knowing
                print(name, "failed:", error, file=sys.stderr)
        json.dump(result, open("warned.json", "w"), indent=1)
        if dist.is_initialized():
            dist.destroy_process_group()


main()
