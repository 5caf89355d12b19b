"""Writes reference.safetensors by the reference implementation.

    pip install safetensors torch
    cd core/tensor/testdata && python3 make_safetensors_golden.py

The file checked in is that of safetensors 0.8.0.
"""

import torch
from safetensors.torch import save_file

save_file(
    {
        "unet.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "bias": torch.tensor([0.5, -1.0], dtype=torch.float16),
        "half": torch.tensor([1.0, -2.0, 3.0], dtype=torch.bfloat16),
        "position_ids": torch.arange(4, dtype=torch.int64).reshape(1, 4),
        "mask": torch.tensor([True, False, True]),
        "bytes": torch.tensor([0, 127, 255], dtype=torch.uint8),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 7),
        "é \"quoted\"\n": torch.tensor([7], dtype=torch.int32),
    },
    "reference.safetensors",
    metadata={"format": "pt"},
)
