"""How visible is a site to a model? Each page passes through three phases: website-analysis, prompt-forming, model-analysis."""
