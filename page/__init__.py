"""A small web page for people: the groups as they are, and what happened to one of them, now and then.

    coordinator.groups, coordinator.events ─► live ─► memory ─┐
    Delta tables ───────────────────────────────► history ────┼─► app ─► pages, to the browser
    coordinator.requests, asked now and then ──► lags ────────┘

It only looks: nothing that can be done here changes a group.
"""
