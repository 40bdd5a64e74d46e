"""A small training with everything that `python -m hindmost` marks. usage: train.py STEPS"""
import gc
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """10 ms a batch, waited for by the training."""

    def __len__(self):
        return int(sys.argv[1])

    def __getitem__(self, i):
        time.sleep(0.010)
        return torch.full((4,), float(i))


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
for n, x in enumerate(DataLoader(Slow(), batch_size=1)):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    other.step()
    schedule.step()
    if n == 2:
        torch.save(model.state_dict(), sys.argv[2])
gc.collect()
print("trained", sys.argv[1:], __name__)
