"""Fast Torch implementations on matrix products: chunk by chunk, block by block, and token by token for decoding.

Each module is one system, opens with its equation, and has public functions of the layout q, k `b t h k`, v `b t g v`.
They run on any device, in float64, and in float32 for anything narrower.
"""
