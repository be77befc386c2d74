"""Three worked examples on Windlass: ``visibility``, ``timesheets`` and ``summaries``. They use its public names only.

``demo`` runs the first two together, with simulated users: ``windlass demo``.

``running`` has the parts that start databases and workers, ``web`` the parts that fetch pages and call a model.
"""
