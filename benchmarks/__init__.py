"""Measurements, each a program of its own."""
