"""The classic protocol: members join, the leader assigns, everybody syncs and sends heartbeats."""
