"""What all machines share: docstrings, probabilities, support rows, class vectors."""
