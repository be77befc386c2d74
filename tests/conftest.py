"""What every test can use. The servers' fixtures live in tests/servers/plugin.py."""

pytest_plugins = ["tests.servers.plugin"]
