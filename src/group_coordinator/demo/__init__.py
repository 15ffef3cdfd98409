"""The main job of the project, shown: workers share a topic while some of them and the coordinator die.

`story.py` is the plot; every other module is one thing that the plot needs.
"""
