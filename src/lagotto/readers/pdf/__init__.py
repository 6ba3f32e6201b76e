"""PDF files: the text of the pages, without what repeats on them, and with tables and titles."""
