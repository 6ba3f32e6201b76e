"""Text with or without markup, kept as it is written: plain text, code, Markdown, RST, and more."""
