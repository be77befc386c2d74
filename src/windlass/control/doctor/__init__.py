"""The doctor: checks settings, database and instances, and says what to do about each finding."""
