"""Algorithms, one file each; a file in this folder is found by itself."""

from domainwise.algorithms._algorithm import Algorithm, algorithm, draw, hypers, resolved
from domainwise.algorithms._hyper import choice, hyper, log10, uniform, whole
from domainwise.algorithms._penalty import Penalized, Terms
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
