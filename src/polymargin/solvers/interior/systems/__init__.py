"""What is left of a Newton step when slacks and multipliers are eliminated: linear systems in the unknowns."""
