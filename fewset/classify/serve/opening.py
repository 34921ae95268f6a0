"""What `fewset serve` begins with: nothing, or the classifier of a file."""

from pathlib import Path

from fewset.classify.embedding import chosen_encoder, encoder_of
from fewset.classify.heads import find_classifier_head
from fewset.classify.model import EncoderStamp
from fewset.classify.saving import load_classifier
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.workbench import Workbench


def open_workbench(
    path: Path | None = None, encoder: str | None = None, device: str = "auto"
) -> tuple[Workbench, EmbeddingQueue]:
    """A workbench, and the queue in which photos for it are embedded. The encoder is loaded.

    That of a file is found by the name that it has there, unless another place is given.
    """
    if path is None:
        found = chosen_encoder(encoder or "auto", device)
        return Workbench(EncoderStamp(found.id, found.digest)), EmbeddingQueue(found)
    learned, share = load_classifier(path)
    find_classifier_head(learned.head)  # unknown without its plugin: say so now, not after the first change
    found = encoder_of(learned, encoder, device)
    return Workbench.opened(learned, EncoderStamp(found.id, found.digest), share), EmbeddingQueue(found)
