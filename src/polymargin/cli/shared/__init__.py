"""What the commands share: data in, models in and out, progress."""
