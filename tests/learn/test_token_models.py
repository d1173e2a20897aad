"""Models of tokens: what they are made of is what their run folders hold."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from edgewise import DataError, RunFolderError
from edgewise.learn.fitted import Fitted
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.language.task import NextToken
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.tasks.tagging.task import Tags
from edgewise.learn.tasks.tokens import load_tokenizer, perplexity, save_tokenizer
from edgewise.learn.training.folder import RunFolder

FROZEN = Path(__file__).parents[1] / "frozen/0.2.0"
RUNS = sorted(
    path.parent
    for path in FROZEN.glob("*/run")
    if path.parent.name.startswith(("language", "masked", "tagging", "translation"))
)


def tensors_of(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in list(file.keys())}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_frozen_model_is_written_as_it_was(run, tmp_path):
    folder = RunFolder.finished(run / "run")
    fitted = task_of(folder).load(folder)
    assert type(fitted) is Fitted
    fitted.save(RunFolder(tmp_path))

    before, after = (json.loads((path / "model.json").read_text()) for path in (run / "run", tmp_path))
    assert {name: after[name] for name in before if name != "sha256"} == {
        name: before[name] for name in before if name != "sha256"
    }
    assert set(after) - set(before) <= {"checksums", "num_tokens"}  # which the first folders do not have
    assert tensors_of(tmp_path) == tensors_of(run / "run")
    vocabularies = [json.loads((path / "tokenizer.json").read_text())["model"] for path in (run / "run", tmp_path)]
    assert vocabularies[0] == vocabularies[1]


def test_the_usual_tag_is_one_of_the_tags():
    Tags(("B-PER", "O"), "O").check()
    with pytest.raises(DataError, match="usual is 'X', which is not one of the tags"):
        Tags(("B-PER", "O"), "X").check()


def test_tags_that_no_training_sentence_has_are_no_targets():
    output = Tags(("B-PER", "O"), "O")
    assert output.targets(["O", "B-LOC", "B-PER"]) == [1, -1, 0]
    assert output.mark_spans
    assert not Tags(("noun", "verb"), "noun").mark_spans


def test_what_is_never_written():
    tokenizer = Tokenizer.fit(["abc"], "characters")
    assert NextToken().never_written(tokenizer) == [tokenizer.unknown, tokenizer.end]
    assert NextToken(has_end=True).never_written(tokenizer) == [tokenizer.unknown]
    assert (NextToken().end(tokenizer), NextToken(has_end=True).end(tokenizer)) == (None, tokenizer.end)


def test_a_vocabulary_fits_its_model(tmp_path):
    tokenizer, folder = Tokenizer.fit(["abc"], "characters"), RunFolder(tmp_path)
    save_tokenizer(folder, tokenizer)
    assert len(load_tokenizer(folder, "characters")) == len(tokenizer) == 5
    with pytest.raises(RunFolderError, match="has the token number 4, but the model knows 4 tokens"):
        load_tokenizer(folder, "characters", 4)


def test_perplexity_stays_a_number():
    assert perplexity(0) == 1
    assert perplexity(1e9) < float("inf")
