"""The ladder of evidence, one file a rung, and the search for counterexamples and planted errors."""
