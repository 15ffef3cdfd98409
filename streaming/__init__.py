"""The Spark query around the protocol core: its source, its stateful function, its sink, and what watches it.

Start reading at `query.py` (the whole stream on one page) and `service.py` (the long-lived job).
"""
