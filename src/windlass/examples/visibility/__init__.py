"""How visible is a site? Three phases for each page (fetch, form questions, ask a model), and a chunked report.

``windlass demo`` runs it: it serves the pages and a small model on loopback. With your own servers:

    WINDLASS_DEMO_SITE=http://127.0.0.1:8000 WINDLASS_DEMO_MODEL=http://127.0.0.1:8001/v1 \\
        windlass worker windlass.examples.visibility.jobs:app
"""
