"""`group-coordinator history`: ask the tables of the history."""
