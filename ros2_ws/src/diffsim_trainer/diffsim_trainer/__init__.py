"""Training through differentiable contact: physics, environment, SHAC, export."""
