"""Image sets: the store on disk, importers into it, the embedded set, batched augmentation."""

from fewset.data.images.store import SPLITS, ImageSet, Selection, home, list_sets, open_set

__all__ = ["SPLITS", "ImageSet", "Selection", "home", "list_sets", "open_set"]
