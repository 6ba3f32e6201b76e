"""Known designs as data: each file holds the preferences that make a search work as they say."""
