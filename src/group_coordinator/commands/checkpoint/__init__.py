"""`group-coordinator checkpoint`: look into checkpoints, keep and move them, replay the log."""
