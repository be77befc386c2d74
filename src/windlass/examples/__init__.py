"""Applications that use Windlass, one folder each."""
