"""SQL texts and migrations, read from the files under ``sql/``."""
