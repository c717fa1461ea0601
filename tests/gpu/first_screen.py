# SPDX-License-Identifier: Apache-2.0
"""Training steps of a GPT of GPT-2 small's size with one costly habit, named by --habit; its line is marked "# HERE"."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 50257, 768, 12, 12, 512, 16


class Tokens(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.randint(VOCABULARY, (LENGTH + 1,), generator=torch.Generator().manual_seed(index))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, ids):
        return self.head(self.layers(self.tokens(ids) + self.places, mask=self.mask))


def train(habit, steps):
    device = torch.device("cuda")
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loader = iter(DataLoader(Tokens(), batch_size=BATCH, num_workers=2, pin_memory=habit != "pageable"))
    total = 0.0
    for _ in range(steps):
        torch.cuda.nvtx.range_push("step")
        batch = next(loader)
        if habit == "pageable":
            batch = batch.to(device)  # HERE pageable
        else:
            batch = batch.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        if habit == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # HERE clip
        optimizer.step()
        optimizer.zero_grad()
        if habit == "item":
            total += loss.item()  # HERE item
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    print("done", habit, bool(total >= 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--habit", choices=["item", "pageable", "clip"], required=True)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    train(arguments.habit, arguments.steps)
