"""The real servers the tests run on: found, started on demand, gone with the run. See CONTRIBUTING.md."""
