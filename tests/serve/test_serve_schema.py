"""The interface does what its own description says, over generated requests, good and bad."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stand_in import NODE, TEXT, StandIn

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

SERVED = {
    "texts": ("text", [{"name": "title", "type": "text"}, {"name": "text", "type": "text"}]),
    "molecules": ("molecule", [{"name": "smiles", "type": "smiles"}, {"name": "temperature / K", "type": "number"}]),
    "nodes": ("graph", NODE),
    "one text": ("text", TEXT),
}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
"""Without `positive_data_acceptance`: not every string is a SMILES, or the name of a node."""


@pytest.mark.parametrize("name", SERVED)
def test_the_description_is_true(name, listening, plain_view):
    from schemathesis.checks import CHECKS as KNOWN
    from schemathesis.checks import load_all_checks

    load_all_checks()
    checks = [KNOWN.get_one(each) for each in CHECKS]
    kind, fields = SERVED[name]
    explainer = StandIn(kind, fields)
    address = listening(explainer, hosts=("127.0.0.1",))
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    statuses = {each.ok().label: statuses_of(each.ok(), checks) for each in schema.get_all_operations()}
    assert statuses.pop("GET /model") == {200}
    assert set(statuses) == {f"POST /{path}" for path in ("predict", "explain", "page", "picture")}
    assert all({200} < found for found in statuses.values())


def statuses_of(operation, checks):
    """How generated requests were answered, each as described."""
    modes, found = schemathesis.GenerationMode, set()
    kinds = [modes.POSITIVE] if operation.method == "get" else [modes.POSITIVE, modes.NEGATIVE]

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in kinds]))
    def ask(case):
        answer = case.call()
        found.add(answer.status_code)
        is_refused_in_place = operation.path == "/predict" and answer.status_code == 200 and has_errors(answer.json())
        # A row that is none is refused in its place, beside the predictions of the others.
        left_out = {"negative_data_rejection"} if is_refused_in_place else set()
        case.validate_response(answer, checks=[each for each in checks if each.__name__ not in left_out])

    ask()
    return found


def has_errors(answer):
    """Whether a row of an answer says that it was refused."""
    return any(row["error"] is not None for row in answer["rows"])
