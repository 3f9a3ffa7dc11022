"""Evaluating statements in many number systems, and judging identities by what comes out."""
