"""The bodies of requests and answers; FastAPI checks them and writes them into the OpenAPI document."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, WrapValidator

from slalom.result import SCORES
from slalom.text import Record

_MOST_FIELDS = 100


def _unicode(text: str) -> str:
    """Return a string, unless it has halves of surrogate pairs, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text must be valid Unicode") from error
    return text


def _given(given: Any, as_text: Callable[[Any], str]) -> str:
    """Return a text, or the record of an object of fields or of a list of two texts."""
    if isinstance(given, Record):
        return given
    if isinstance(given, list):
        if len(given) != 2 or not all(isinstance(text, str) for text in given):
            raise ValueError("must be a text, an object of fields, or two texts")
        given = tuple(given)
    if not isinstance(given, (dict, tuple)):
        return as_text(given)
    if len(given) > _MOST_FIELDS:
        raise ValueError(f"must have at most {_MOST_FIELDS} fields; got {len(given)}")
    return Record(given)


Text = Annotated[str, AfterValidator(_unicode)]
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
Given = Annotated[
    str,
    WrapValidator(_given),
    AfterValidator(_unicode),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}, _PAIR]}),
]
# A list is checked up to the first fault, since hundreds of thousands of them take seconds to list.
Texts = Annotated[list[Text], Field(fail_fast=True)]
ManyGiven = Annotated[list[Given], Field(fail_fast=True)]
Rows = Annotated[list[Annotated[list[Literal[0, 1]], Field(fail_fast=True)]], Field(fail_fast=True)]
Format = Literal["html", "png", "svg", "json", "csv", "python"]
Picture = Literal["bar", "scatter"]
_SCORES = "; ".join(f"{score.name}, {score.meaning}" for score in SCORES.values() if score.listed)


class _Options(BaseModel):
    """How a text is explained: a body without unknown fields, and without conversions."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: Text | None = Field(None, description="Id of a model of /api/info. Default: the first.")
    method: Text = Field("joint", description="Name of a method of /api/methods.")
    unit: Text | None = Field(None, description="token, type, word or sentence. Default: that of the method.")
    queries: int | None = Field(None, ge=2, description="Budget of model queries. Default: five per unit, from 200 to 1000.")
    target: Text | None = Field(None, description="Class to explain, by label or index, or all. Default: class 1 of two.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the queries and the fit.")


class Subject(_Options):
    """What is explained, and how."""

    text: Given = Field(
        description="The text to explain, its fields, or the two texts of a pair.", examples=["A slow but beautiful film."]
    )


class Question(_Options):
    """What the model is asked: parts of a text that is explained (`keep`), or whole texts (`texts`)."""

    text: Given | None = Field(None, description="The text that is explained, or its fields; with keep.")
    keep: Rows | None = Field(None, description="Presence of the units, one row per question.")
    texts: ManyGiven | None = Field(None, description="Whole texts, or their fields.")

    def subject(self) -> Subject:
        return Subject(**{name: getattr(self, name) for name in Subject.model_fields})


class DownloadRequest(Subject):
    """An explanation as a file."""

    format: Format = Field(description="Kind of the file.")
    picture: Picture | None = Field(
        None, description="What a png or svg shows: bars, or value against importance. Default: scatter."
    )


class ContextQuestion(BaseModel):
    """A question about sources, and the answer to explain."""

    model_config = ConfigDict(extra="forbid", strict=True)
    sources: Text | Texts = Field(description="One text, or a list of documents.", examples=["Ada lives in Graz. It rains."])
    question: Text = Field(max_length=4_000, description="The question.", examples=["Where does Ada live?"])
    answer: Text | None = Field(None, max_length=4_000, description="Default: the model writes it.")
    unit: Literal["sentence", "paragraph", "document"] | None = Field(
        None, description="What a source is. Default: the sentences of one text, the documents of a list."
    )
    queries: int | None = Field(None, ge=2, description="Budget of queries. Default: eight per source, from 64 to 1000.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the queries and the fit.")


class Explained(BaseModel):
    """An explanation: `content` as the page shows it, `explanation` as `Explanation.to_dict` gives it."""

    content: dict[str, Any]
    explanation: dict[str, Any] = Field(
        description=f"Its `scores` are {_SCORES}; `errors` are standard errors, by the same names."
    )
    final: bool = True


class AskedAnswer(BaseModel):
    """The answers of the model, one per row or text; `predicted` are those of the surrogate, for rows."""

    scores: list[Any]
    probabilities: list[list[float]] | None
    labels: list[str]
    label: list[str | None]
    predicted: list[Any] | None = None


class FlipAnswer(BaseModel):
    """The fewest units that were found, confirmed by the model; null where none of the sets that were asked is enough."""

    flip: dict[str, Any] | None = Field(
        description="units; label_before, label_after, score_before, score_after; confirmed; queries."
    )


class CorpusQuery(BaseModel):
    """Which texts of a corpus, in which order, from which on."""

    model_config = ConfigDict(extra="forbid")

    search: Text = Field("", max_length=200, description="Part of a text or of its id, in upper or lower case.")
    word: Text = Field("", max_length=200, description="A word, phrase or piece, as the summary names it.")
    target: Text = Field("", max_length=200, description="Class whose score a text explains.")
    sort: Text = Field("number", max_length=40, description="Order; the summary lists them.")
    slice: Text = Field("", max_length=400, description="COLUMN=VALUE of a kept column.")
    offset: int = Field(0, ge=0, lt=2**53, description="The first text.")
    limit: int = Field(25, ge=1, le=100, description="Most texts.")
