"""Algorithms, one file each; a file in this folder is found by itself."""

from domainwise.algorithms._algorithm import Algorithm, algorithm
from domainwise.algorithms._bases import Penalized, Terms
from domainwise.algorithms._hyper import choice, draw, hyper, hypers, log10, resolved, uniform, whole
from domainwise.algorithms._spec import Given, Spec, create, names, parse, specs_of

__all__ = [
    "Algorithm",
    "Given",
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
    "specs_of",
    "uniform",
    "whole",
]
