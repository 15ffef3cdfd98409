"""Everything that belongs to a checkpoint and must stay as it was when the checkpoint was made."""
