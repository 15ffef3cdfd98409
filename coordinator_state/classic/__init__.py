"""The classic protocol: members join, the leader assigns, all members sync and send heartbeats."""
