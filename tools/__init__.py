"""Programs for working on Windlass; none of them is part of the package."""
