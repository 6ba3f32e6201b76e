"""Plumbing: names, threads, memory, locations, tokens. Nothing here knows of searches."""
