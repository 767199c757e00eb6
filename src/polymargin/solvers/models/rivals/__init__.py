"""MarginDistributionSVC: start, rounds, the paper's iteration."""
