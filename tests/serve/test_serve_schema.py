"""The interface does what its own description says, over generated requests, good and bad."""

import pytest
from stand_in import NODE, TEXT, StandIn

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

SERVED = {
    "texts": ("text", [{"name": "title", "type": "text"}, {"name": "text", "type": "text"}]),
    "molecules": ("molecule", [{"name": "smiles", "type": "smiles"}, {"name": "temperature / K", "type": "number"}]),
    "nodes": ("graph", NODE),
    "one text": ("text", TEXT),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_description_is_true(name, listening, plain_view):
    from hypothesis import HealthCheck, settings

    kind, fields = SERVED[name]
    address = listening(StandIn(kind, fields), hosts=("127.0.0.1",))
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    # Not every string is a SMILES, a node or a text with words in it: what fits the description may be refused.
    unfit = [schemathesis.checks.load_all_checks() and check for check in ()]
    seen = []
    for operation in schema.get_all_operations():
        case_of = operation.ok()

        @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @_given(case_of)
        def ask(case):
            response = case.call()
            seen.append((case_of.label, response.status_code))
            case.validate_response(response, excluded_checks=unfit)

        ask()
    assert {label for label, _ in seen} == {
        "GET /model",
        *(f"POST /{path}" for path in ("predict", "explain", "page", "picture")),
    }
    assert all(status < 500 for _, status in seen)


def _given(operation):
    from hypothesis import given
    from hypothesis import strategies as st

    positive = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    negative = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    return given(case=st.one_of(positive, negative))
