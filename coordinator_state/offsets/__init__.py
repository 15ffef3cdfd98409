"""Committed offsets of groups of any kind, and their retention."""
