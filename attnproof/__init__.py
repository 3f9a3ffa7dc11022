"""attnproof."""
