"""Why a job is not running: reads what is known of the job, its queue and the fleet, and names the reasons, the most decisive first."""
