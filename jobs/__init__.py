"""How the long-lived jobs run, whatever they do."""
