"""What losses add to an interior point: slacks and multipliers, and how they follow a direction."""
