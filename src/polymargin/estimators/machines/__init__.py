"""The machines: each names its loss, its penalty and its own parameters."""
