"""The number systems, one file each, with one contract (contract.py)."""
