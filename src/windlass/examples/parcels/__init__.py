"""A small shipping room: every parcel is packed, then shipped. ``windlass demo --kill`` runs it.

    orders.py    the day's parcels: some for later, some that wait for others, one that cannot be shipped
    work.py      the work of each phase
    ledger.py    the application's own table, written in the transaction that advances the parcel
    worker.py    one worker process: claims, renews its lease, works, records, recovers jobs of dead workers

It uses only the store, so worker.py shows the steps that the engine does otherwise.
"""
