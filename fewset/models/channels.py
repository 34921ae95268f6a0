"""The colour channels that a network was trained on."""

Channels = tuple[float, float, float]
"""A value for red, green and blue."""

IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)
