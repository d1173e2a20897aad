"""The methods of explanation, in one list, and `explain`, which applies them to any `Explainable`."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from edgewise.errors import SettingError
from edgewise.explain.explainable import Attended, Differentiable, Explainable
from edgewise.explain.explanation import Attribution, Explanation, Faithfulness, Link, Part
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.occlusion import Predict, occlude, predict_without, share_links
from edgewise.explain.rollout import rollout

STEPS = 20, 4
"""Steps of a faithfulness curve, for small and for very large inputs."""
Choice = Sequence[str] | str | None
"""Names of methods, with options if they have any: `shapley:samples=64,seed=1`; None for the defaults of the task."""


@dataclass(frozen=True)
class Method:
    """A method of explanation."""

    about: str
    """What it computes, in a line."""
    attribute: Callable[..., Attribution | None]
    """Computes one number per unit of an `Explainable`, given the options; None if it does not apply."""
    options: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Integer options, with their defaults."""


def _removal(item: Explainable) -> Attribution | None:
    if item.contributions is None:
        return None
    added = item.contributions()
    return Attribution("removal", added.values, True, added.about, added.baseline)


def _occlusion(item: Explainable) -> Attribution:
    return Attribution("occlusion", item.occlusion, True, item.about)


def _shared_occlusion(item: Explainable) -> Attribution | None:
    if item.linked is None:
        return None
    values = share_links(item.occlusion, item.linked.ends, item.link_effects)
    about = (
        "Occlusion less half of the effect of each link of the unit: occlusion counts the joint effect of two linked "
        "units for both; here each gets half."
    )
    return Attribution("shared occlusion", values, True, about)


def _gradients(
    name: str, about: str, compute: Callable[[Explainable, Differentiable], np.ndarray]
) -> Callable[[Explainable], Attribution]:
    """A gradient method, averaged over the members of an ensemble."""

    def attribute(item: Explainable) -> Attribution:
        members = item.differentiable()
        values = [
            member.by_unit(compute(item, member)) if member.by_unit else compute(item, member) for member in members
        ]
        return Attribution(name, np.mean(values, axis=0), True, about.format(*members[0].words))

    return attribute


_integrated_gradients = _gradients(
    "integrated gradients",
    "Gradients by {0} along the line from {1}; they sum to the difference.",
    lambda item, member: integrated_gradients(
        member.function, member.features, member.baseline, item.points, member.batch_size, item.max_points
    ),
)
_gradient_times_input = _gradients(
    "gradient × input",
    "The gradient by {0}, times them.",
    lambda _, member: gradient_times_input(member.function, member.features[None])[0],
)


def _attention(item: Explainable) -> Attribution | None:
    values = [_at_units(item, member, member.direct) for member in item.attention.members if member.direct is not None]
    if not values:
        return None
    return Attribution("attention", np.mean(values, axis=0), item.attention.is_signed, item.attention.about)


def _rollout(item: Explainable) -> Attribution | None:
    members = [member for member in item.attention.members if member.top is not None and len(member.layers)]
    if not members:
        return None
    values = []
    for member in members:
        assert member.top is not None
        top = member.top.double()
        weights = rollout(member.layers, residual=member.residual, queries=top.nonzero().flatten())
        share = top[weights.receivers] * weights.values.double()
        values.append(_at_units(item, member, torch.zeros_like(top).index_add(0, weights.senders, share)))
    return Attribution("rollout", np.mean(values, axis=0), False, item.attention.about_rollout)


def _at_units(item: Explainable, member: Attended, values: torch.Tensor) -> np.ndarray:
    """The values of the positions of the units."""
    values = values.double()
    selected = values[: item.num_units] if member.positions is None else values[torch.as_tensor(member.positions)]
    return selected.detach().numpy()


def _shapley(item: Explainable, samples: int, seed: int) -> Attribution:
    values = shapley_values(item.predict, item.num_units, item.groups, samples=samples, seed=seed)
    about = (
        "Shapley values: the mean effect of the unit over orders in which all units are removed, one after the other; "
        "they sum to the prediction less that without any unit."
    )
    return Attribution("shapley", item.spread(values), True, about)


def shapley_values(
    predict: Predict, num_units: int, groups: Sequence[np.ndarray], *, samples: int = 32, seed: int = 0
) -> Float[np.ndarray, " group"]:
    """The Shapley value of each group of units, by sampling orders in which they are removed.

        φ_g = mean over orders π of f(without those before g in π) − f(without those before g, and g)

    Each order is followed by its reverse (antithetic sampling). If there are at most as many orders as samples, every
    order is used once, and the values are exact. In each order the effects sum to f(all) − f(none), and so do the
    values (efficiency).

    Args:
        predict: f, for many lists of units that are removed.
        num_units: number of units.
        groups: units that are removed together.
        samples: number of orders; an odd number is rounded up.
        seed: of the orders.

    Raises:
        SettingError: `samples` is below 1.
        ShapeError: as in `occlude`.

    Cost: samples · (groups − 1) predictions, and two more.
    Source: Castro, Gómez & Tejada 2009, "Polynomial calculation of the Shapley value based on sampling"; Štrumbelj &
        Kononenko 2014, "Explaining prediction models and individual predictions with feature contributions".

    >>> def both(removed):  # 6 if both units are present, else 0
    ...     return np.array([0.0 if len(units) else 6.0 for units in removed])
    >>> shapley_values(both, 2, [np.array([0]), np.array([1])]).tolist()
    [3.0, 3.0]
    """
    if samples < 1:
        raise SettingError(f"shapley: samples is {samples}; expected at least 1.")

    count = len(groups)
    if not count:
        return np.zeros(0)

    if count < 13 and math.factorial(count) <= samples:
        orders = [np.array(order) for order in itertools.permutations(range(count))]
    else:
        random = np.random.default_rng(seed)
        drawn_orders = [random.permutation(count) for _ in range((samples + 1) // 2)]
        orders = [order for drawn_order in drawn_orders for order in (drawn_order, drawn_order[::-1])]

    everything = np.concatenate(groups)
    full, empty = predict_without(predict, [everything[:0], everything], num_units, "shapley")
    values = np.zeros(count)
    for order in orders:
        removed = [np.concatenate([groups[group] for group in order[:size]]) for size in range(1, count)]
        without = predict_without(predict, removed, num_units, "shapley") if removed else np.zeros(0)
        values[order] -= np.diff(np.r_[full, without, empty])

    return values / len(orders)


METHODS: dict[str, Method] = {
    "removal": Method("what each unit adds, by inputs that lack a part", _removal),
    "occlusion": Method("the prediction less that without each unit", _occlusion),
    "shared occlusion": Method("occlusion less half of the effect of each link", _shared_occlusion),
    "integrated gradients": Method("gradients along the line from an input without information", _integrated_gradients),
    "gradient × input": Method("the gradient by the features, times them", _gradient_times_input),
    "attention": Method("the weights that the prediction is read with", _attention),
    "rollout": Method("attention through all layers, multiplied", _rollout),
    "shapley": Method("the mean effect over orders of removal", _shapley, {"samples": 32, "seed": 0}),
}
"""Every method by its name."""


def explain(item: Explainable, methods: Choice = None) -> Explanation:
    """Explains one input by several methods.

    Args:
        item: the input and the output that is explained.
        methods: names in `METHODS`, in the order of the attributions; None for the defaults of the task.

    Raises:
        SettingError: a method or option is unknown, or a named method does not apply to the model.
    """
    chosen = chosen_methods(item.methods if methods is None else methods)
    attributions = []
    for name, options in chosen.items():
        attribution = METHODS[name].attribute(item, **options)
        if attribution is not None:
            attributions.append(attribution)
        elif methods is not None:
            others = ", ".join(other for other in item.methods if other != name)
            raise SettingError(f"explain: method {name!r} does not apply to this model; its methods are {others}.")

    links, layers = item.linked, tuple(item.attention.layers)
    fields = item.describe(item)
    missing = np.full(len(fields["units"]) - item.num_units, math.nan)
    return Explanation(
        **fields,
        links=tuple(
            Link(*ends, effect)
            for ends, effect in zip(() if links is None else links.ends, item.link_effects.tolist(), strict=True)
        ),
        layers=layers,
        attributions=tuple(
            replace(attribution, values=np.concatenate([attribution.values, missing])) for attribution in attributions
        ),
        parts=_with_effects(item),
        curves=tuple(item.curves()),
        faithfulness=_evaluate_faithfulness(item, attributions),
    )


def chosen_methods(methods: Sequence[str] | str) -> dict[str, dict[str, int]]:
    """The options of each named method, as in `shapley:samples=64,seed=1`.

    Raises:
        SettingError: a method or option is unknown or has two values, a value is not an integer, or no method is named.
    """
    chosen: dict[str, dict[str, int]] = {}
    for text in [methods] if isinstance(methods, str) else methods:
        name, _, option_text = str(text).partition(":")
        name = name.replace("-", " ").replace(" x ", " × ")
        if name not in METHODS:
            raise SettingError(f"explain: method is {name!r}; expected one of {', '.join(METHODS)}.")

        options: dict[str, int] = {}
        for word in filter(None, option_text.split(",")):
            option, _, value = word.partition("=")
            defaults = METHODS[name].options
            if option not in defaults or not value.isdecimal():
                expected = ", ".join(f"{key}={default}" for key, default in defaults.items()) or "none"
                raise SettingError(f"explain: method {name!r} has the option {word!r}; expected integers: {expected}.")
            if options.setdefault(option, int(value)) != int(value):
                raise SettingError(f"explain: method {name!r} has the option {option} twice; give one value.")
        if chosen.setdefault(name, options) != options:
            raise SettingError(f"explain: method {name!r} is named twice with different options; name it once.")
    if not chosen:
        raise SettingError(f"explain: no method is named; expected one of {', '.join(METHODS)}.")

    return {name: {**METHODS[name].options, **options} for name, options in chosen.items()}


def _with_effects(item: Explainable) -> tuple[Part, ...]:
    """The parts of an input, each with the effect of removing it."""
    parts = list(item.parts())
    unknown = [part_number for part_number, part in enumerate(parts) if math.isnan(part.effect)]
    if unknown:
        effects = occlude(item.predict, item.num_units, [parts[part_number].units for part_number in unknown])
        for part_number, effect in zip(unknown, effects.tolist(), strict=True):
            parts[part_number] = replace(parts[part_number], effect=effect)
    return tuple(parts)


def _evaluate_faithfulness(item: Explainable, attributions: Sequence[Attribution]) -> Faithfulness | None:
    """How faithful each attribution is over the removable units; None if there are none."""
    units = item.removable
    if not len(units):
        return None
    steps = STEPS[0]
    if item.budget is not None:
        steps = max(STEPS[1], min(steps, item.budget // (2 * (len(attributions) + 1))))
    removable = [replace(attribution, values=attribution.values[units]) for attribution in attributions]
    return faithfulness(
        lambda removed: item.predict([units[indices] for indices in removed]), removable, len(units), steps=steps,
        scale=item.scale,
    )  # fmt: skip
