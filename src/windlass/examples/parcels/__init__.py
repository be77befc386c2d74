"""A small shipping room: every parcel is packed, then shipped. What ``windlass demo`` runs.

    orders.py    the day's parcels: some for later, some that wait for others, one nobody can ship
    work.py      what happens to a parcel in each phase
    ledger.py    the room's own table, written in the same transaction that moves the parcel on
    worker.py    one worker process: claims, beats, works, records, looks after the dead

Written against the store alone, until the engine and the decorators exist; then worker.py becomes unnecessary.
"""
