"""What the page knows, ready to be written as ONNX or as a page of its own."""

from fewset.classify.embedding import chosen_encoder
from fewset.classify.export.writing import ClassifierExport
from fewset.classify.serve.workbench import Moment


def exported(moment: Moment) -> ClassifierExport:
    """The classifier of this moment, with its encoder."""
    learned = moment.ready()
    encoder = learned.encoder.id if learned.encoder else "auto"
    return ClassifierExport(learned, chosen_encoder(encoder, "cpu"), moment.album.share)
