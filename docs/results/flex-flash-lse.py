import math
import torch
from torch.nn.attention.flex_attention import flex_attention
print(torch.__version__, torch.cuda.get_device_name())
q, k, v = (torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
due = (q.float() @ k.float().transpose(2, 3) / 8).logsumexp(-1)
for backend in ("TRITON", "FLASH"):                 # FLASH needs PyPI's flash-attn-4
    lse = torch.compile(flex_attention)(q, k, v, return_lse=True, kernel_options={"BACKEND": backend})[1]
    print(backend, "LSE is", round((lse / due).mean().item(), 4), "times what it has to be; ln 2 is", round(math.log(2), 4))
