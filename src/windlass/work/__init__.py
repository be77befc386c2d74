"""What users write against: kinds, phases, and what a handler sees."""
