"""What a folder gives: the walk through its files, and which of them are left out, and why."""
