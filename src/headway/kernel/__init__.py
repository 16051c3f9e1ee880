"""Compiled mathematics on arrays: no classes, no input or output, no records."""
