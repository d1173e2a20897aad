"""`edgewise convert`: Hugging Face's folders as ours, and ours as theirs."""

import argparse
from pathlib import Path

SUMMARY = "make a run folder of a Hugging Face checkpoint, or the other way round"
DESCRIPTION = (
    "Read a GPT-2 checkpoint folder in Hugging Face's layout (config.json, model.safetensors, tokenizer.json or "
    "vocab.json and merges.txt) and write it as a run folder that `edgewise generate` reads; or a run folder of a "
    "model of a text, made with --position learned, and write it in their layout. Nothing is downloaded."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("source", metavar="FOLDER", help="the checkpoint, or the run folder")
    parser.add_argument(
        "-o", "--output-dir", required=True, metavar="FOLDER", help="the folder to write; not there yet"
    )


def run(arguments: argparse.Namespace) -> int:
    """Reads one and writes the other."""
    from edgewise.errors import RunFolderError
    from edgewise.estimators.convert import from_checkpoint, to_checkpoint
    from edgewise.estimators.language import TrainedLanguage
    from edgewise.train.folder import RunFolder

    source, target = Path(arguments.source), Path(arguments.output_dir)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunFolderError(f"{target} is there already; choose another folder with -o.")
    if (source / "config.json").is_file():
        from_checkpoint(source).save(RunFolder(target))
        print(f'{source} is now the run folder {target}. Next: edgewise generate {target} --prompt "..."')
        return 0
    to_checkpoint(TrainedLanguage.load(RunFolder.finished(source)), target)
    print(f"{source} is now {target} in Hugging Face's layout.")
    return 0
