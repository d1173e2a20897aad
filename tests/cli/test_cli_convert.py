"""`edgewise convert`: a run in Hugging Face's layout, read by their library, and back; and what it refuses."""

import json

import pytest
import torch
from safetensors.torch import load_file

SONG = "the cat sat on the mat and the dog sat on the log. " * 30
SMALL = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 16, "--context", 16, "--steps", 4, "--threads", 1]


@pytest.fixture
def run(edgewise, tmp_path):
    (tmp_path / "book.txt").write_text(SONG)
    words = ["--model", "gpt2", "--tokens", "bpe", "--vocabulary-size", 270, "-o", tmp_path / "run"]
    assert edgewise("train", tmp_path / "book.txt", *SMALL, *words)[0] == 0
    return tmp_path / "run"


def test_there_and_back(run, edgewise, paste, tmp_path):
    code, out, err = edgewise("convert", run, "-o", tmp_path / "theirs")
    assert (code, err) == (0, "")
    assert "Hugging Face" in out
    code, out, err = edgewise("convert", tmp_path / "theirs", "-o", tmp_path / "again")
    assert (code, err) == (0, "")
    paste(out)
    written = [edgewise("generate", folder, "--prompt", "the cat", "--seed", 1) for folder in (run, tmp_path / "again")]
    assert written[0] == written[1]
    # The model never learned where a text ends, and does not claim to when it comes back.
    models = [json.loads((folder / "model.json").read_text()) for folder in (run, tmp_path / "again")]
    assert [model.get("has_end") for model in models] == [False, False], models


def test_their_library_reads_it(run, edgewise, tmp_path):
    transformers = pytest.importorskip("transformers", reason="pip install transformers, to read what was written")
    edgewise("convert", run, "-o", tmp_path / "theirs")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "theirs").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))
    given = tokenizer("the cat", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        for _ in range(8):
            scores = model(given).logits[0, -1]
            scores[tokenizer.convert_tokens_to_ids("<end>")] = -torch.inf
            given = torch.cat([given, scores.argmax()[None, None]], 1)
    words = ["--prompt", "the cat", "--temperature", 0, "--num-tokens", 8]
    assert edgewise("generate", run, *words)[1] == tokenizer.decode(given[0]) + "\n"


def test_a_converted_checkpoint_is_trained_further(run, edgewise, tmp_path):
    edgewise("convert", run, "-o", tmp_path / "theirs")
    edgewise("convert", tmp_path / "theirs", "-o", tmp_path / "again")
    (tmp_path / "letters.txt").write_text("a dog and a cat sat on a log. " * 30)
    words = ["--pretrained", tmp_path / "again", "--context", 8, "--steps", 2, "--threads", 1]
    assert edgewise("train", "language", tmp_path / "letters.txt", *words, "-o", tmp_path / "tuned")[0] == 0
    before, after = (json.loads((tmp_path / name / "model.json").read_text()) for name in ("again", "tuned"))
    assert after["settings"] == before["settings"] | {"context": 8}
    assert (tmp_path / "tuned/tokenizer.json").read_bytes() == (tmp_path / "again/tokenizer.json").read_bytes()
    started, tuned = (load_file(tmp_path / name / "model.safetensors") for name in ("again", "tuned"))
    assert started.keys() == tuned.keys()
    for name, value in tuned.items():  # two steps of a small rate move each number by little
        torch.testing.assert_close(value, started[name][: len(value)], atol=1e-3, rtol=0)
    assert any(not torch.equal(value, started[name][: len(value)]) for name, value in tuned.items())

    code, _, err = edgewise("train", "language", tmp_path / "letters.txt", *words[:2], "--num-layers", 3)
    assert code == 2
    assert "--num-layers is 3, but the model of" in err
    code, _, err = edgewise("train", "language", tmp_path / "letters.txt", *words[:2], "--context", 32)
    assert code == 2
    assert "--context is 32, but the model of" in err


def test_byte_pairs_in_two_files(run, edgewise, tmp_path):
    theirs = tmp_path / "theirs"
    edgewise("convert", run, "-o", theirs)
    tokenizer = json.loads((theirs / "tokenizer.json").read_text())
    (theirs / "tokenizer.json").unlink()
    (theirs / "vocab.json").write_text(json.dumps(tokenizer["model"]["vocab"]))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in tokenizer["model"]["merges"]]
    (theirs / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    assert edgewise("convert", theirs, "-o", tmp_path / "again")[0] == 0
    read = json.loads((tmp_path / "again" / "tokenizer.json").read_text())["model"]
    assert read["vocab"] == tokenizer["model"]["vocab"]


def test_hidden_tokens_there_and_back(edgewise, tmp_path):
    (tmp_path / "texts.txt").write_text("the cat sat on the mat\nand the dog sat on the log\n" * 20)
    sizes = ["--num-layers", 1, "--num-heads", 2, "--model-dim", 16, "--hidden-dim", 32, "--context", 16]
    recipe = ["--task-type", "masked", "--epochs", 1, "--threads", 1, "-o", tmp_path / "run"]
    assert edgewise("train", tmp_path / "texts.txt", "--model", "bert-base", *sizes, *recipe)[0] == 0
    for source, target in (("run", "theirs"), ("theirs", "again")):
        code, _, err = edgewise("convert", tmp_path / source, "-o", tmp_path / target)
        assert (code, err) == (0, "")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name
    ours, again = (json.loads((tmp_path / folder / "model.json").read_text()) for folder in ("run", "again"))
    assert ours.pop("sha256") and again.pop("sha256")
    assert ours.pop("checksums").items() >= again.pop("checksums").items()  # what is converted has no settings
    assert again == ours


def test_what_a_checkpoint_of_an_encoder_lacks_is_said(edgewise, tmp_path):
    transformers = pytest.importorskip("transformers", reason="pip install transformers, to make a checkpoint")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=9, **sizes)).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/vocab.txt").write_text("[PAD]\n[UNK]\na\n##b\n")
    code, out, _ = edgewise("convert", tmp_path / "theirs", "-o", tmp_path / "run")
    assert code == 0
    assert "left out, as our model does not have it: the pooler\n" in out
    assert "only the encoder is read" in out


def test_what_cannot_be_converted(run, edgewise, tmp_path):
    theirs = tmp_path / "theirs"
    edgewise("convert", run, "-o", theirs)
    (tmp_path / "rotary.txt").write_text(SONG)
    edgewise("train", tmp_path / "rotary.txt", *SMALL, "-o", tmp_path / "rotary")

    def refused(*words):
        code, out, err = edgewise("convert", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err

    assert "position is 'rotary'; GPT-2 has 'learned'" in refused(tmp_path / "rotary", "-o", tmp_path / "x")
    assert "exists already" in refused(run, "-o", theirs)
    assert "is not a run folder" in refused(tmp_path / "nowhere", "-o", tmp_path / "x")
    config = (theirs / "config.json").read_text()
    (theirs / "config.json").write_text(config.replace('"gpt2"', '"t5"'))
    assert "model_type is 't5'; only gpt2, bert can be converted" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "config.json").write_text("[]")
    assert "model_type is None" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "config.json").write_text(config)
    model = json.loads((tmp_path / "rotary/model.json").read_text())
    (tmp_path / "rotary/model.json").write_text(json.dumps(model | {"format": "edgewise translation model"}))
    message = "holds 'edgewise translation model'; only edgewise language model and edgewise masked model"
    assert message in refused(tmp_path / "rotary", "-o", tmp_path / "x")
    (theirs / "config.json").write_text("{")
    assert "config.json" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "config.json").write_text(config)
    vocabulary = json.loads((theirs / "tokenizer.json").read_text())
    tokens = vocabulary["model"]["vocab"]
    gap = {**tokens, max(tokens, key=tokens.get): 5000}  # as many tokens as before, one behind the last embedding
    changed = {**vocabulary, "model": {**vocabulary["model"], "vocab": gap}}
    (theirs / "tokenizer.json").write_text(json.dumps(changed))
    assert "the tokenizer has token 5,000, but the model 270 tokens" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "tokenizer.json").write_bytes(b"{\xff}")
    assert "tokenizer.json cannot be read" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "tokenizer.json").unlink()
    assert "no tokenizer.json, and no vocab.json" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "model.safetensors").write_bytes(b"what")
    assert "not a safetensors file" in refused(theirs, "-o", tmp_path / "x")
    (theirs / "model.safetensors").unlink()
    assert "no model.safetensors" in refused(theirs, "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()
