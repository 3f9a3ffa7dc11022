"""The oracle: holds any kernel against a statement, and says what is wrong with it."""
