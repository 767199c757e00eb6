"""What a fit needs besides its problem: targets in, parameters by cross-validation, arrays out."""
