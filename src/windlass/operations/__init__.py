"""Operations: acts on all jobs of a filter, stored, and done a page at a time."""
