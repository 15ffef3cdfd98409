"""Committed offsets: what is kept for a group of any kind, and for how long."""
