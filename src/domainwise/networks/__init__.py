"""A featurizer and a head: networks by name, timm backbones and files of weights."""
