"""The HTTP interface: requests become calls of the workbench, its results become JSON."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, File, Form, Query, Response, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from pydantic import Field
from starlette.datastructures import UploadFile as UploadedFile  # the class of the values

from fewset.classify.photos.rows import PhotoRow
from fewset.classify.photos.sources import Photo
from fewset.classify.serve import payloads
from fewset.classify.serve.album import checked_class, in_words
from fewset.classify.serve.downloads import DOWNLOADS
from fewset.classify.serve.embedding_queue import EmbeddingQueue
from fewset.classify.serve.project import Project
from fewset.classify.serve.workbench import TOP, Workbench
from fewset.core.errors import UserError
from fewset.core.names import LONGEST, one_line

MOST_TOP = 100
MOST_PHOTOS = 1000
"""Of one request."""
LARGEST = 2**26
"""Bytes of one photo."""
Responses = dict[int | str, dict[str, Any]]
RESPONSES: Responses = {
    status: {"model": payloads.Problem} for status in (400, 401, 403, 404, 413, 421, 503, 507)
}
_JPEG: Responses = {200: {"content": {"image/jpeg": {}}, "description": "A small JPEG."}}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILE: Responses = {200: {"content": {"application/octet-stream": _BINARY}, "description": "A file."}}
Photos = Annotated[
    list[UploadFile],
    File(
        description="Photos: JPEG, PNG, WebP, TIFF, GIF, BMP, AVIF; HEIC by an extra.",
        min_length=1,
        max_length=MOST_PHOTOS,
    ),
]
Number = Annotated[int, Field(ge=0, lt=2**53)]
Numbers = Annotated[list[Number], Body(embed=True, min_length=1, max_length=20_000)]
ClassName = Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Patience = Annotated[
    float | None,
    Query(
        ge=0,
        le=10,
        description="Seconds to wait while the classifier is learning; by default, until it has learned.",
    ),
]


class Interface:
    """The routes over one workbench and one queue."""

    def __init__(self, bench: Workbench, queue: EmbeddingQueue, project: Project) -> None:
        self.bench, self.queue, self._project = bench, queue, project
        self.router = APIRouter(prefix="/api", responses=RESPONSES)
        get = partial(self.router.add_api_route, methods=["GET"])
        post = partial(self.router.add_api_route, methods=["POST"])
        get("/state", self.state, tags=["teach"])
        post("/photos", self.add_photos, tags=["teach"])
        post("/photos/move", self.move_photos, status_code=204, tags=["teach"])
        post("/photos/remove", self.remove_photos, status_code=204, tags=["teach"])
        get("/photos/{number}/thumbnail", self.thumbnail, response_class=Response, responses=_JPEG)
        post("/classes", self.new_class, status_code=204, tags=["teach"])
        post("/classes/rename", self.rename_class, status_code=204, tags=["teach"])
        post("/classes/remove", self.remove_class, status_code=204, tags=["teach"])
        post("/reject", self.reject, status_code=204, tags=["teach"])
        post("/undo", self.undo, tags=["teach"])
        post("/classify", self.classify, tags=["classify"])
        get("/tried", self.tried, tags=["classify"])
        get("/next", self.next_to_name, tags=["classify"])
        post("/tried/teach", self.teach, status_code=204, tags=["classify"])
        post("/tried/forget", self.forget, status_code=204, tags=["classify"])
        get("/picture", self.picture, tags=["look"])
        get("/project", self.project, tags=["project"])
        get("/project/earlier", self.earlier, tags=["project"])
        post("/project/open", self.open_earlier, status_code=204, tags=["project"])
        post("/project/upload", self.open_upload, status_code=204, tags=["project"])
        get("/downloads/{name}", self.download, response_class=Response, responses=_FILE, tags=["take away"])

    def state(self, patience: Patience = None) -> payloads.State:
        """The classes, their photos, and how far to trust the classifier that was learned from them."""
        moment = self.bench.moment(patience)
        return payloads.State(
            revision=moment.revision,
            encoder=self.bench.stamp.id,
            head=moment.album.head,
            classes=payloads.classes_shown(moment),
            share=moment.album.share,
            usual_share=self.bench.usual_share,
            can_reject=moment.learned is not None and bool(moment.learned.trust.closeness),
            trust=payloads.trust_shown(moment),
            learning=moment.learning,
            undo=moment.undo,
            waiting=self.queue.waiting,
            downloads={name: each.title for name, each in DOWNLOADS.items() if each.available()},
        )

    async def add_photos(
        self,
        label: Annotated[str, Form(min_length=1, max_length=LONGEST)],
        photos: Photos,
        step: Annotated[
            str, Form(max_length=LONGEST, description="Photos of the same step are undone together.")
        ] = "",
    ) -> payloads.Added:
        """Add photos to a class, which is made if it is new. What cannot be read is skipped."""
        checked_class(label)
        rows = await self.embedded(uploaded(photos))
        added = self.bench.add(label, [row for row in rows if not row.problem], step)
        return payloads.Added(
            photos=[payloads.PhotoShown(number=photo.number, name=photo.row.name) for photo in added],
            skipped=[payloads.Skipped(name=row.name, problem=row.problem) for row in rows if row.problem],
        )

    def move_photos(self, photos: Numbers, label: ClassName) -> None:
        """Move photos to another class."""
        what = f"moving {in_words(photos)} to {label}"
        self.bench.change(what, lambda album: album.moved(photos, label))

    def remove_photos(self, photos: Numbers) -> None:
        """Remove photos from their classes."""
        self.bench.change(f"removing {in_words(photos)}", lambda album: album.without_photos(photos))

    def thumbnail(self, number: Number) -> Response:
        """A small copy of a photo."""
        try:
            return Response(self.bench.thumbnail(number), media_type="image/jpeg")
        except UserError as error:
            raise HTTPException(404, str(error)) from None

    def new_class(self, name: ClassName) -> None:
        """Make a class without photos."""
        self.bench.change(f"making the class {name}", lambda album: album.with_class(name))

    def rename_class(self, name: ClassName, new_name: ClassName) -> None:
        """Give a class another name."""
        self.bench.change(f"renaming {name} to {new_name}", lambda album: album.renamed(name, new_name))

    def remove_class(self, name: ClassName) -> None:
        """Remove a class with its photos."""
        self.bench.change(f"removing the class {name}", lambda album: album.without_class(name))

    def reject(self, share: Annotated[Share | None, Body(embed=True)]) -> None:
        """Set the allowed false-rejection rate; with null no photo is none of these."""
        self.bench.change("the setting of none of these", lambda album: album.with_share(share))

    def undo(self) -> dict[str, str]:
        """Take the last step back."""
        return {"undone": self.bench.undo()}

    async def classify(
        self,
        photos: Photos,
        top: Annotated[int, Form(ge=1, le=MOST_TOP)] = TOP,
        keep: Annotated[bool, Form(description="List the photos in /api/tried from now on.")] = False,
    ) -> payloads.Answers:
        """Classify photos: class, probability, and the nearest labelled photo as the reason."""
        rows = await self.embedded(uploaded(photos), thumbnails=keep)
        return await run_in_threadpool(self._classified, rows, top, keep)

    def _classified(self, rows: Sequence[PhotoRow], top: int, keep: bool) -> payloads.Answers:
        moment = self.bench.moment()
        kept = iter(self.bench.try_out([row for row in rows if not row.problem]) if keep else ())
        shown = [
            payloads.answer_shown(moment, answer, next(kept).number if keep and not answer.problem else None)
            for answer in moment.answers(rows, top)
        ]
        return payloads.Answers(revision=moment.revision, answers=shown)

    def tried(self, patience: Patience = None) -> payloads.Answers:
        """The photos that were kept, as they are classified now; without a label while it is learning."""
        moment = self.bench.moment(patience)
        shown = [
            payloads.answer_shown(moment, answer, photo.number)
            for photo, answer in zip(moment.tried, moment.tried_answers(), strict=True)
        ]
        return payloads.Answers(revision=moment.revision, answers=shown)

    def next_to_name(self, count: Annotated[int, Query(ge=1, le=100)] = 1) -> list[payloads.PhotoShown]:
        """The kept photos whose label would help most, the most useful first; none that has one already."""
        photos = self.bench.moment().next_to_name(count)
        return [payloads.PhotoShown(number=photo.number, name=photo.row.name) for photo in photos]

    def teach(self, photos: Numbers, label: ClassName) -> None:
        """Put photos that were kept into a class."""
        self.bench.teach(photos, label)

    def forget(self, photos: Numbers) -> None:
        """Keep photos no longer."""
        self.bench.forget(photos)

    def picture(self) -> payloads.Projection:
        """The photos on a plane, with the prototypes before and after adaptation."""
        return payloads.projection(self.bench.moment())

    def project(self) -> payloads.ProjectShown:
        """The file that the work is saved to as it changes."""
        own = self._project
        return payloads.ProjectShown(
            file=own.path.name, saved_at=own.saved_at, unsaved=own.unsaved, problem=own.problem
        )

    def earlier(self) -> list[payloads.EarlierWork]:
        """The files of earlier work, the latest first."""
        return [
            payloads.EarlierWork(file=path.name, saved=when, classes=list(classes), photos=photos)
            for path, when, classes, photos in self._project.earlier()
        ]

    def open_earlier(self, file: Annotated[str, Body(embed=True, min_length=1, max_length=LONGEST)]) -> None:
        """Continue with earlier work. What is here is saved first; this cannot be undone."""
        self._project.open_earlier(file, self.queue.encoder)

    async def open_upload(self, file: UploadFile) -> None:
        """Continue with a .fewset file, in a new project file."""
        await run_in_threadpool(self._project.open_copy, await file.read(), self.queue.encoder)

    def download(self, name: str) -> Response:
        """The classifier or its predictions as a file."""
        if name not in DOWNLOADS:
            raise HTTPException(404, f"there is no such download; expected one of {', '.join(DOWNLOADS)}")
        file, data = DOWNLOADS[name].packed(self.bench.moment())
        headers = {"content-disposition": f'attachment; filename="{file}"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def embedded(self, photos: Sequence[Photo], thumbnails: bool = True) -> list[PhotoRow]:
        """The rows of photos, at least one of which can be read; other requests go on meanwhile."""
        submitted = self.queue.submit(photos, thumbnails)
        rows = await asyncio.gather(*map(asyncio.wrap_future, submitted))
        if all(row.problem for row in rows):
            raise UserError("; ".join(f"{row.name}: {row.problem}" for row in rows[:3]))
        return rows


def uploaded(files: Sequence[UploadedFile]) -> list[Photo]:
    """The files of a request. Their names are shown, and never used as paths."""

    def read(file: UploadedFile) -> bytes:
        if (file.size or 0) > LARGEST:
            raise OSError(f"file of {file.size} bytes, more than the limit of {LARGEST}")
        return file.file.read()

    return [Photo(shown_name(file.filename or ""), partial(read, file)) for file in files]


def shown_name(name: str) -> str:
    """The last part of a path, on one line and not too long."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return one_line(last[-LONGEST:]) or "photo"
