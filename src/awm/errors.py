"""Every deliberate exception of AWM, as one tree sorted by who can act on it.

::

    AwmError
    ├── UserError                    the person at the keyboard: a flag, a file, an extra
    │   ├── ConfigError              a setting or a model spec that cannot be used
    │   ├── MissingExtraError        an optional part of AWM that is not installed
    │   └── RunMismatchError         a run folder that was made with other settings
    ├── DataError                    whoever made the file
    │   ├── DocumentError            a document that cannot be read
    │   │   ├── DocumentNotFoundError
    │   │   ├── EmptyFileError       0 bytes
    │   │   ├── NotAPdfError         no PDF header, and no image either
    │   │   ├── TruncatedDocumentError  a PDF header, but the rest cannot be parsed
    │   │   ├── EncryptedDocumentError  needs a password
    │   │   ├── NoPagesError         parses, but holds no page
    │   │   └── PageError            one page that is not there or cannot be drawn
    │   ├── BenchmarkError           a dataset that does not have the documented schema
    │   └── RunStoreError            a run folder whose journals are damaged
    ├── AgentError                   the agent loop
    │   ├── ToolError                a refused call; its text is written for the model
    │   └── MissingImageError        an observation promised an image and carries none
    └── EndpointError                the model server
        ├── EndpointTimeoutError     no whole answer in time
        ├── EndpointConnectionError  refused, reset, or closed in the middle of an answer
        ├── EndpointStatusError      an HTTP status that is not 200, with the server's own words
        └── EndpointReplyError       a 200 whose body is not a chat completion

Messages say what happened, with the values, and then what to do.
"""

from __future__ import annotations


class AwmError(Exception):
    """Root of every exception that AWM raises on purpose."""


class UserError(AwmError):
    """Something that the person who started the command can mend."""


class ConfigError(UserError):
    """A setting or a model spec that cannot be used."""


class MissingExtraError(UserError):
    """An optional part of AWM that is not installed; the message names the extra."""


class RunMismatchError(UserError):
    """A run folder that was made with other settings; the message names the differences."""


class DataError(AwmError):
    """A file whose content cannot be used."""


class DocumentError(DataError):
    """A document that cannot be read."""


class DocumentNotFoundError(DocumentError):
    """No file or folder at the document's path."""


class EmptyFileError(DocumentError):
    """The document's file has 0 bytes."""


class NotAPdfError(DocumentError):
    """The file is neither a PDF nor an image."""


class TruncatedDocumentError(DocumentError):
    """The file starts like a PDF, and the rest cannot be parsed."""


class EncryptedDocumentError(DocumentError):
    """The document needs a password."""


class NoPagesError(DocumentError):
    """The document parses and holds no page."""


class PageError(DocumentError):
    """A page that is not in the document, or that cannot be drawn."""


class BenchmarkError(DataError):
    """A dataset that does not have the documented schema."""


class RunStoreError(DataError):
    """A run folder that cannot be read."""


class AgentError(AwmError):
    """Something went wrong in the agent loop."""


class ToolError(AgentError):
    """A tool call that is refused; the text is an observation written for the model."""


class MissingImageError(AgentError):
    """An image that was promised to a model did not travel with the request."""


class EndpointError(AwmError):
    """A model server did not give a usable answer."""


class EndpointTimeoutError(EndpointError):
    """No whole answer within the time limit."""


class EndpointConnectionError(EndpointError):
    """The connection was refused, reset, or closed in the middle of an answer."""


class EndpointStatusError(EndpointError):
    """An HTTP status other than 200.

    Attributes:
        status: the HTTP status code.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class EndpointReplyError(EndpointError):
    """A reply with status 200 that is not a chat completion."""


def first_of(errors: ExceptionGroup[Exception]) -> Exception:
    """Give the first exception of a task group: the one that ended the others."""
    first: Exception | ExceptionGroup[Exception] = errors
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first
