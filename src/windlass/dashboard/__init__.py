"""The dashboard: ``with_dashboard(api)`` serves its pages at ``/``, beside the REST API that they use and nothing else."""

from windlass.dashboard.mounting import with_dashboard

__all__ = ["with_dashboard"]
