"""Documents: pages that are drawn on demand, and their text layers."""

from awm.documents.document import (
    Document,
    Page,
    PageSource,
    document_from_images,
    open_document,
)
from awm.documents.image import MediaType, PageImage
from awm.documents.render import RenderCache, RenderSettings

__all__ = [
    "Document",
    "MediaType",
    "Page",
    "PageImage",
    "PageSource",
    "RenderCache",
    "RenderSettings",
    "document_from_images",
    "open_document",
]
