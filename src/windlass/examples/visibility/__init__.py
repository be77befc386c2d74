"""How visible is a site? Three phases over real pages (fetched, asked about, judged by a model), beside a chunked report.

``windlass demo`` runs it: it serves the pages and a small model server on loopback itself. With servers of your own:

    WINDLASS_DEMO_SITE=http://127.0.0.1:8000 WINDLASS_DEMO_MODEL=http://127.0.0.1:8001/v1 \\
        windlass worker windlass.examples.visibility.jobs:app
"""
