"""Streams of server-sent events: of jobs, of phases, of everything, and several of them in one stream."""
