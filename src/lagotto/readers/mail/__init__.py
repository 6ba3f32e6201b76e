"""Mail: single messages and mailboxes, with their attachments."""
