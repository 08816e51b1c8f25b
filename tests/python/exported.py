"""Runs a graph that another process saved, in one that has a pattern of this text. usage: exported.py FOLDER TEXT"""
import sys

import torch

import s2
import s2.torch_ops  # noqa: F401  registers the operators

pattern = s2.Pattern(sys.argv[2])
model = torch.export.load(sys.argv[1] + "/model.pt2").module()
inputs, answer = torch.load(sys.argv[1] + "/answer")
try:
    print(torch.equal(model(*inputs), answer))
except s2.Error as refused:
    print(type(refused).__name__, refused)
