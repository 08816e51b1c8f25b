import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa
print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())
q = torch.ones(1, 1, 64, 64, device="cuda", dtype=torch.bfloat16)
k, v = q.clone() * 0.01, torch.zeros_like(q)
k[:, :, 1], v[:, :, 1] = 20000, 7.0                 # a key that the mask hides from every query
hidden = torch.ones(64, 64, device="cuda", dtype=torch.bool)
hidden[:, 1] = False
empty = hidden.clone()
empty[0] = False                                    # query 0 may read nothing
for name in ("MATH", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
    with sdpa_kernel([getattr(SDPBackend, name)]):
        print(name, "hidden key comes back as", sdpa(q, k, v, attn_mask=hidden).max().item(),
              "| row without keys:", sdpa(q, k * 0, v + 1, attn_mask=empty)[0, 0, 0, 0].item())
