"""No models: Windlass's tables are its own. Django sends ``post_migrate`` only to apps that have this module, and Windlass needs that signal."""
