"""The free ring: polynomials over letters that don't commute, for matrices of any size."""
