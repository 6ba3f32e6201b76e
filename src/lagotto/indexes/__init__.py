"""Derived search structures: full text and vectors. Each follows the change log of a store."""
