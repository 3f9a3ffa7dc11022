"""Statements on a history: a sequence cut into [past; new tokens], its inputs as letters, and forms that run on it."""
