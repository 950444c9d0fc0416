"""Drop in a MetaOptimizer: walk through the domains, go back, and step towards the mean of the models visited."""
