"""Weights of all-MiniLM-L6-v2, as files beside this one."""
