"""Interior points: slack blocks of the losses, Newton systems, and the central path through them."""
