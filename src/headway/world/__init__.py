"""Worlds: where jobs come from and what servers can do."""
