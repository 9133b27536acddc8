"""The shapes of request bodies with texts: as JSON, and as a form, for /openapi.json."""

from typing import Any

from ovor.web.bodies import (
    FILE,
    KEEP,
    LABEL,
    LABELS,
    NAME,
    WAS,
    YES,
    Body,
    fields_of,
    flag,
    lesson_options,
)

TEXT = {
    "type": "string",
    "pattern": "[^\\s\\u0000-\\u001f\\u007f\\ufeff]",
    "description": "of any length; the network reads its beginning",
}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


class Written:
    """The bodies of a model whose items can be written, by what they are called."""

    def __init__(self, one: str, many: str, least_epochs: int) -> None:
        options = lesson_options(least_epochs)
        pair = fields_of([one, "label"], **{one: TEXT}, label=NAME)
        lessons = {"type": "array", "items": pair, "minItems": 1}
        forms = fields_of([], **{many: TEXTS}, labels=LABELS, table=FILE, **options)
        forms["anyOf"] = [{"required": [many, "labels"]}, {"required": ["table"]}]
        self.predict = both(
            fields_of([many], **{many: TEXTS}, keep=KEEP),
            fields_of([many], **{many: TEXTS}, keep=as_json(KEEP)),
        )
        self.correct = both(
            fields_of([one, "label"], **{one: TEXT}, label=LABEL, was=WAS, yes=YES),
            fields_of([one, "label"], **{one: TEXT}, label=LABEL, was=WAS, yes=as_json(YES)),
        )
        self.unlearn = both(
            fields_of([many, "labels"], **{many: TEXTS}, labels=LABELS),
            fields_of(["lessons"], lessons=lessons),
        )
        said = {name: as_json(schema) for name, schema in options.items()}
        self.lessons = both(forms, fields_of(["lessons"], lessons=lessons, **said))
        labelled = flag("false", "true", "must every row have a label?")
        form = {"schema": fields_of(["table"], table=FILE, labelled=labelled)}
        content = {"multipart/form-data": form}
        self.table: Body = {"requestBody": {"required": True, "content": content}}


def both(form: dict[str, Any], said: dict[str, Any]) -> Body:
    """Return a body that may be a form or JSON."""
    kinds = {"multipart/form-data": form, "application/json": said}
    content = {kind: {"schema": schema} for kind, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": content}}


def as_json(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field of a form as JSON has it: yes and no are true and false."""
    if sorted(field.get("enum", [])) != ["false", "true"]:
        return field
    said = {"type": "boolean", "default": field["default"] == "true"}
    return said | {"description": field["description"]}
