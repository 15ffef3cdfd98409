"""A small web page for people, and an API for programs: the groups as they are, and what happened to one.

    coordinator.groups, .events, .clock ─► live ─► memory, pulse ─┐           ┌─► site ─► pages
    coordinator.lag ─────────────────────► live_lag ──────────────┼─► known ──┤
    coordinator.requests, now and then ──► lags ──────────────────┤           └─► api ──► JSON, streams
    Delta tables ──────────────► history, overview ───────────────┘

It only looks: nothing that can be done here changes a group.
"""
