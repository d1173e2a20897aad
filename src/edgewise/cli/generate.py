"""`edgewise generate`: a language model continues a prompt."""

import argparse
import sys

from edgewise.cli.flags import add_settings
from edgewise.errors import plural
from edgewise.learn.networks.text_settings import SamplingSettings
from edgewise.learn.training.settings import DEVICES

DESCRIPTION = (
    "Continue a prompt with a language model that `edgewise train` made from a text; each token is printed at once."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("run_folder", metavar="RUN", help="the run folder of a language model")
    parser.add_argument("--prompt", metavar="TEXT", help="the text to continue (default: a new line, or another token)")
    add_settings(parser, SamplingSettings)
    parser.add_argument("--device", choices=DEVICES, default="auto", help="(default: auto)")


def run(arguments: argparse.Namespace) -> int:
    """Prints the prompt and its continuation, token by token."""
    flags = vars(arguments)
    sampling = SamplingSettings(**{name: flags[name] for name in vars(SamplingSettings()) if name in flags})
    from edgewise.learn.tasks.language.task import generate_text, load
    from edgewise.learn.training.device import pick_device
    from edgewise.learn.training.folder import RunFolder

    trained = load(RunFolder.finished(arguments.run_folder))
    encoder = trained.encoder
    prompt = encoder.default_prompt if arguments.prompt is None else arguments.prompt
    if num_cut := encoder.num_cut(prompt):
        print(
            f"edgewise: the prompt is longer than the model can read: the first "
            f"{plural(num_cut, 'token is', 'tokens are')} left out, the last {encoder.settings.context:,} are read.",
            file=sys.stderr,
        )

    chunks = generate_text(trained, prompt, sampling, pick_device(arguments.device))
    print(prompt.lstrip("\n"), end="", flush=True)
    for chunk in chunks:
        print(chunk, end="", flush=True)
    print()
    return 0
