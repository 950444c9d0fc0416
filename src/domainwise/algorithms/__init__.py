"""Algorithms, one file each; a file in this folder is found by itself."""

from domainwise.algorithms._algorithm import Algorithm, algorithm
from domainwise.algorithms._bases import Penalized, Terms
from domainwise.algorithms._hyper import choice, draw, hyper, hypers, log10, resolved, uniform, whole
from domainwise.algorithms._spec import Spec, create, names, parse

__all__ = [
    "Algorithm",
    "Penalized",
    "Spec",
    "Terms",
    "algorithm",
    "choice",
    "create",
    "draw",
    "hyper",
    "hypers",
    "log10",
    "names",
    "parse",
    "resolved",
    "uniform",
    "whole",
]
