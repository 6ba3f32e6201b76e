"""HTML pages: parse, find the main content, render it as text with structure."""
