"""Forward passes for NumPy and CuPy: chunkwise on matrix products, and token by token in one fused CUDA kernel.

    from gpu.cupy_kernels.gated_deltanet import gated_deltanet             # chunkwise
    from gpu.cupy_kernels.recurrent import gated_deltanet as fused         # on a device, sums in float64

    output, state = gated_deltanet(q, k, v, log_gate, beta, initial_state, chunk_size=64)
    output, state = on_torch(gated_deltanet)(...)                          # gpu.cupy_kernels.exchange: no copies

The chunkwise functions are written against the array API: the same lines run on NumPy, CuPy, Torch, and exactly on
residues (`gpu.field_array`). Layouts are those of `gpu.registry`: b batch, t tokens, h query heads, g value heads, k
d_k, v d_v, so that q and k are "b t h k", v is "b t g v" and a state is "b g k v".
"""
