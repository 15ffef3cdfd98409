"""`group-coordinator member`: a member to start, watch and kill; it does no work but owns some."""
