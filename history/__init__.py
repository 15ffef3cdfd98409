"""The history of groups: `coordinator.events` as tables, and the answers that these give.

    coordinator.events ─► write-history ─► Delta tables ─► history GROUP, SQL, notebooks
                          (a query of its own)

`rows` and `spans` say what each event means for the tables; everything else moves rows. The query is another
one than the coordinator's, in another process: a slow table or a full disk delays no member.
"""
