"""Jobs in a database: the only folder, beside the features, that knows SQL. ``windlass.features.open_store`` opens a store."""
