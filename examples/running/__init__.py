"""How the examples run: on which database, with which workers, and what is killed."""
