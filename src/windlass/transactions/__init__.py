"""Callers' own transactions: Windlass's statements on a connection or session that belongs to the caller.

A job enqueued here, or an end recorded here, exists if and only if the caller's transaction commits. Nothing in this package
commits, rolls the caller's work back or changes a setting of the session. One small module per library; a library is touched only
through an object that the caller made with it, so none is imported that is not in use.

    detect.py        which library an object belongs to, by the name of its class
    placeholders.py  the store's statements with the placeholders of a driver
    transaction.py   the store's verbs on a caller's transaction
    async_bridge.py  sync code over an async connection
    submitter.py     enqueueing
"""
