"""
Margin losses in PyTorch
========================

The losses and penalties are PyTorch modules too. A head can be trained with its network, or start from a machine's
certified optimum.
"""

# needs: torch

# %%
# A small network on digits, with the maximum-minimum-margin penalty on its last layer.
import torch
from sklearn.datasets import load_digits
from torch import nn

from polymargin import WestonWatkinsSVC
from polymargin.torch import ISM3Loss, WestonWatkinsLoss, to_torch

X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
train, test = slice(0, 1300), slice(1300, None)
torch.manual_seed(0)
torch.set_num_threads(1)
body, head = nn.Sequential(nn.Linear(64, 32), nn.ReLU()), nn.Linear(32, 10)


def trained(head, criterion, epochs, parameters, rate=0.01):
    """The accuracy on the other rows after some epochs."""
    optimizer = torch.optim.Adam(parameters, lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(1300).split(64):
            optimizer.zero_grad()
            criterion(head(body(X[batch])), y[batch]).backward()
            optimizer.step()
    return (head(body(X[test])).argmax(1) == y[test]).float().mean().item()


print(f"ISM³: {trained(head, ISM3Loss(head, p=4, lam=1e-3), 8, [*body.parameters(), *head.parameters()]):.3f}")

# %%
# The same features, the head replaced by the optimum of a convex machine, and both trained on from there.
with torch.no_grad():
    features = body(X[train]).numpy()
machine = WestonWatkinsSVC(C=0.1).fit(features, y[train].numpy())
layer = to_torch(machine)
print(f"a certified head: {(layer(body(X[test])).argmax(1) == y[test]).float().mean():.3f}, {machine.certificate_.status}")
tuned = trained(layer, WestonWatkinsLoss(), 3, [*body.parameters(), *layer.parameters()], 0.001)
print(f"trained on from it: {tuned:.3f}")
