"""The simulator: one of the two drivers of a policy."""
