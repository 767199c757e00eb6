"""The search for the right face, and Newton steps on it."""
