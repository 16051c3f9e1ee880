"""Experiments: results on disk, figures drawn from them."""
