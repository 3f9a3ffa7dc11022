"""The statements: one module per system, written in the language of `derivations.language`. SymPy and data, no
arrays.
"""
