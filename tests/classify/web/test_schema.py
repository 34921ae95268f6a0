"""schemathesis over the OpenAPI page: whatever the schema allows, and what it does not, is no server error."""

import pytest

from fewset.classify.web.embedding_queue import EmbeddingQueue
from fewset.classify.web.server import application
from fewset.classify.web.workbench import Workbench
from tests.helpers.photos import CLASSES
from tests.helpers.web import STAMP, TINY, client, teach

schemathesis = pytest.importorskip("schemathesis", reason="install schemathesis: pip install 'fewset[dev]'")
hypothesis = pytest.importorskip("hypothesis", reason="install hypothesis: pip install 'fewset[dev]'")
