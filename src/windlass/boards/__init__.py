"""Boards: what each instance says of its processors and of the jobs that it holds back, for people who ask."""
