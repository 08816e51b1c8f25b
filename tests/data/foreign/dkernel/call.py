from dkernel import LocalStrideSparseAttention

n_heads = 32
attention = LocalStrideSparseAttention(n_heads, 8192, 64, 16,  # window
                                       vert_stride=8, num_kv_heads=8)
