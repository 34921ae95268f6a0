"""Image sets: decoded once into a store, drawn from by task."""
