"""Applications that use Windlass as anybody would; each is a folder."""
