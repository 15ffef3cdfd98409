"""The watcher of topics: it tells consumer groups what brokers say of the topics that their members name.

The core of the coordinator asks no broker. So the watcher does, and writes what is different as a record of
the group's own key. `watch.py` decides what to ask and what to write, and `watcher.py` does it.
"""
