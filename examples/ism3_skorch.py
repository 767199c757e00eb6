"""ISM3 with skorch: a network as a scikit-learn classifier, on scikit-learn's digits, softmax against ISM3.

    pip install "polymargin[torch]" skorch
    python examples/ism3_skorch.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from skorch import NeuralNetClassifier
from torch import nn

from polymargin.torch import ISM3Loss


class Network(nn.Module):
    def __init__(self, n_features: int = 64, n_hidden: int = 64, n_classes: int = 10):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU())
        self.head = nn.Linear(n_hidden, n_classes)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(X))


class ISM3Classifier(NeuralNetClassifier):
    """The loss is told the last layer, which exists only after the network was made."""

    def initialize_criterion(self):
        arguments = {**self.get_params_for("criterion"), "layer": self.module_.head}
        self.criterion_ = self.initialized_instance(self.criterion, arguments)
        return self


def main() -> None:
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16.0).astype(np.float32), y.astype(np.int64)
    settings = {"max_epochs": 15, "lr": 3e-3, "optimizer": torch.optim.Adam, "batch_size": 64}
    settings |= {"train_split": None, "verbose": 0}
    classifiers = {
        "softmax": NeuralNetClassifier(Network, criterion=nn.CrossEntropyLoss, **settings),
        "ISM3": ISM3Classifier(Network, criterion=ISM3Loss, criterion__p=4, criterion__lam=1e-3, **settings),
    }
    for name, classifier in classifiers.items():
        torch.manual_seed(0)
        found = cross_val_score(classifier, X, y, cv=3)
        print(f"{name:8} accuracy in 3 folds {found.mean():.4f} (from {found.min():.4f} to {found.max():.4f})")


if __name__ == "__main__":
    main()
