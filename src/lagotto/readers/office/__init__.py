"""Office files and books, which are zip archives of XML: DOCX, PPTX, XLSX, ODT, EPUB."""
