"""Counted costs: operations, memory and dependency chains as exact polynomials, and what follows from them."""
