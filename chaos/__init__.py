"""Fault injection: real workers are killed, frozen, cut off and fed poison, and a ledger says whether a promise was broken."""
