"""Kernels of sixteen systems, plain Torch written from the papers, each right or with one fault planted in it.

They share nothing with the statements, with their evaluation or with `gpu`, but for the names and layouts of arguments.
"""
