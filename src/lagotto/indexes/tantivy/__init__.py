"""Full text by tantivy, in a folder beside the database."""
