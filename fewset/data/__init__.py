"""Image sets: the store on disk, importers into it, the embedded set, batched augmentation."""
