"""`edgewise convert`: Hugging Face's folders as ours, and ours as theirs."""

import argparse
from pathlib import Path

from edgewise.learn.tasks.scores import command

DESCRIPTION = (
    "Read a GPT-2 or BERT checkpoint folder in Hugging Face's layout (config.json, model.safetensors, tokenizer.json "
    "or vocab.json and merges.txt or vocab.txt) and write it as a run folder; or a run folder of a model of a text, "
    "made with --position learned, or of masked tokens, made with --model bert-base, and write it in their layout. "
    "Nothing is downloaded."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("source", metavar="FOLDER", help="the checkpoint, or the run folder")
    parser.add_argument("-o", "--output-dir", required=True, metavar="FOLDER", help="a new folder")


def run(arguments: argparse.Namespace) -> int:
    """Reads a folder in one layout and writes it in the other."""
    from edgewise.errors import RunFolderError
    from edgewise.learn.tasks.convert import from_checkpoint, from_run, to_checkpoint
    from edgewise.learn.tasks.masked.task import HiddenTokens
    from edgewise.learn.training.claim import reject_protected_path
    from edgewise.learn.training.folder import RunFolder

    source, target = Path(arguments.source), Path(arguments.output_dir)
    reject_protected_path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunFolderError(f"{target} exists already; choose another folder with -o.")

    if (source / "config.json").is_file():
        trained = from_checkpoint(source)
        with RunFolder(target).claimed() as folder:
            trained.save(folder)
        if isinstance(trained.output, HiddenTokens):
            print(f"{source} is now the run folder {target}.")
            if trained.output.left_out:
                print(f"  left out, as our model does not have it: {'; '.join(trained.output.left_out)}")
            if not trained.output.has_head:
                print("  the head that predicts masked tokens is missing: only the encoder is read")
            return 0
        print(f"{source} is now the run folder {target}. Next:\n  {command('generate', target)}")
        return 0

    to_checkpoint(from_run(RunFolder.finished(source)), target)
    print(f"{source} is now {target} in Hugging Face's layout.")
    return 0
