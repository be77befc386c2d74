"""The audit trail: who did what to jobs, phases and schedules, when and why."""
