"""`edgewise generate`: a trained model writes."""

import argparse
import sys

from edgewise.models.text_settings import SamplingSettings
from edgewise.train.settings import DEVICES

SUMMARY = "let a model that learned a text write more of it"
DESCRIPTION = "Go on from a prompt with a model that `edgewise train` made from a text; it is printed as it is written."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    known = SamplingSettings()
    parser.add_argument("run_folder", metavar="RUN", help="the run folder of a model of a text")
    parser.add_argument("--prompt", metavar="TEXT", help="what to go on from (default: a new line, or another token)")
    parser.add_argument(
        "--num-tokens", type=int, default=known.num_tokens, metavar="N", help=f"at most (default: {known.num_tokens})"
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=known.temperature,
        metavar="T",
        help=f"0 takes the likeliest token, 1 draws as they are likely, inf draws all alike (default: "
        f"{known.temperature:g})",
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest (default: from all)")
    parser.add_argument(
        "--top-p", type=float, default=known.top_p, metavar="P", help="draw from the likeliest that have P together"
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=known.repetition_penalty,
        metavar="X",
        help="above 1, tokens that stand there already become less likely (default: 1)",
    )
    parser.add_argument("--seed", type=int, default=known.seed, metavar="N", help=f"(default: {known.seed})")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="(default: auto)")


def run(arguments: argparse.Namespace) -> int:
    """Writes, piece by piece."""
    sampling = SamplingSettings(
        num_tokens=arguments.num_tokens,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        repetition_penalty=arguments.repetition_penalty,
        seed=arguments.seed,
    )
    from edgewise.tasks.language.trained import TrainedLanguage
    from edgewise.train.device import pick_device
    from edgewise.train.folder import RunFolder

    trained = TrainedLanguage.load(RunFolder.finished(arguments.run_folder))
    prompt = trained.opening if arguments.prompt is None else arguments.prompt
    if cut := trained.cut(prompt):
        context = trained.model.settings.context
        print(
            f"edgewise: the prompt is longer than the model can read: the first {cut:,} tokens are left out, the last "
            f"{context:,} are read.",
            file=sys.stderr,
        )
    pieces = trained.write(prompt, sampling, pick_device(arguments.device))
    print(prompt.lstrip("\n"), end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0
