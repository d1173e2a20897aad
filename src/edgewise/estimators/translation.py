"""A model that translates, with the vocabulary it was trained with; and how it is trained."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from edgewise.data.text import Tokenizer
from edgewise.errors import DataError, MissingExtraError, RunFolderError
from edgewise.estimators.translation_job import TranslationJob
from edgewise.models.beam import translate
from edgewise.models.beam_settings import BeamSettings
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.models.translation import TranslationModel
from edgewise.records import PairBatch
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder, write_bytes
from edgewise.train.keeper import Report
from edgewise.train.loader import LengthLoader, seed_of
from edgewise.train.log import MetricsLog
from edgewise.train.loss import TokenLoss

FORMAT, FORMAT_VERSION = "edgewise translation model", 1
TEXTS_A_BATCH = 64
"""Texts that are translated at once."""


@dataclass
class TrainedTranslation:
    """A model, its vocabulary, and the names of what it reads and writes."""

    tokenizer: Tokenizer
    """From text to tokens and back, the same for both languages."""
    model: TranslationModel
    """What was trained."""
    names: tuple[str, str] = ("source", "target")
    """The columns of the table it was trained on."""
    threads: int = 1
    """CPU threads that it computes with."""

    def translate(
        self, texts: Sequence[str], beam: BeamSettings = BeamSettings(), device: str = "cpu"
    ) -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads."""
        end = self.tokenizer.end
        assert end is not None
        tokens = [self.tokenizer.encode(text).numbers for text in texts]
        found: list[str | None] = [None] * len(texts)
        able = [row for row, numbers in enumerate(tokens) if 0 < len(numbers) < self.model.settings.context]
        able.sort(key=lambda row: len(tokens[row]))
        self.model.to(device).eval()
        with cpu_threads(self.threads):
            for first in range(0, len(able), TEXTS_A_BATCH):
                rows = able[first : first + TEXTS_A_BATCH]
                source, lengths = padded([with_end(tokens[row], end) for row in rows], end)
                written = translate(self.model, source.to(device), lengths.to(device), end, end, beam)
                for row, numbers in zip(rows, written, strict=True):
                    found[row] = self.tokenizer.decode(numbers)
        self.model.to("cpu")
        return found

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        folder.path.mkdir(parents=True, exist_ok=True)
        write_bytes(folder.path / "model.safetensors", to_safetensors(tensors))
        write_bytes(folder.path / "tokenizer.json", self.tokenizer.to_json().encode())
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "num_tokens": self.model.embedding.num_embeddings,
            "names": list(self.names),
            "settings": dataclasses.asdict(self.model.settings),
        }
        folder.write_json("model.json", content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        try:
            tokenizer = Tokenizer.from_json((folder.path / "tokenizer.json").read_text("utf-8"), "bpe")
            model = untrained(content["num_tokens"], TransformerSettings(**content["settings"]), seed=0)
            model.load_state_dict(load_file(folder.path / "model.safetensors"))
        except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
            raise RunFolderError(f"{folder.path} holds a damaged model: {error}") from error
        return cls(tokenizer, model.eval(), tuple(content["names"]))


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Texts and translations as tokens, and the batches of some of them."""

    sources: list[np.ndarray]
    """Tokens of each text, the end included."""
    targets: list[np.ndarray]
    """Tokens of each translation, the end included."""
    end: int
    """The token that ends a text, and begins it."""

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """What a row takes in a batch: the longer of the two."""
        return np.array([max(len(self.sources[row]), len(self.targets[row])) for row in rows], dtype=np.int64)

    def batch(self, rows: np.ndarray) -> PairBatch:
        """Some rows, padded."""
        source, source_lengths = padded([self.sources[row] for row in rows], self.end)
        written = [self.targets[row] for row in rows]
        tokens, _ = padded([np.concatenate([[self.end], text[:-1]]) for text in written], self.end)
        targets, _ = padded(written, -1)
        return PairBatch(source, source_lengths, tokens, targets)


def with_end(numbers: np.ndarray, end: int) -> np.ndarray:
    """The tokens of a text, and its end."""
    return np.append(numbers, end)


def padded(texts: Sequence[np.ndarray], filling: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts of different lengths as one table, and their lengths."""
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64)
    table = torch.full((len(texts), int(lengths.max())), filling, dtype=torch.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = torch.from_numpy(text)
    return table, lengths


def untrained(num_tokens: int, settings: TransformerSettings, seed: int) -> TranslationModel:
    """A model before its first step."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed))
        return TranslationModel(num_tokens, settings)


def fit_pairs(
    tokenizer: Tokenizer,
    pairs: TokenPairs,
    parts: dict[str, np.ndarray],
    job: TranslationJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> tuple[TrainedTranslation, dict[str, Any]]:
    """Learns to translate the training rows, and chooses the epoch by the validation rows."""
    # Lightning takes seconds to import, and reading a model does without it.
    from edgewise.train.fit import fit

    settings = job.train
    assert settings.batch_size is not None
    model = untrained(len(tokenizer), job.model, settings.seed)
    log = None if folder is None else MetricsLog(folder.path / "logs", settings.logger, folder.path.name)

    def loader(rows: np.ndarray, seed: int | None) -> LengthLoader:
        assert settings.batch_size is not None
        return LengthLoader(pairs.lengths(rows), lambda places: pairs.batch(rows[places]), settings.batch_size, seed)

    result = fit(
        model,
        loader(parts["train"], settings.seed),
        loader(parts["val"], None) if len(parts["val"]) else None,
        TokenLoss(job.label_smoothing),
        settings,
        folder=None if folder is None else folder.checkpoint_folder(0),
        resume=resume,
        log=log,
        report=report,
    )
    if log is not None:
        log.close()
    trained = TrainedTranslation(tokenizer, model.eval(), threads=settings.threads)
    metrics: dict[str, Any] = {
        "rows": {part: len(rows) for part, rows in parts.items()},
        "tokens": {"vocabulary": len(tokenizer)},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "training_seconds": round(sum(record["seconds"] for record in result.history), 2),
    }
    return trained, metrics


def token_loss(trained: TrainedTranslation, pairs: TokenPairs, rows: np.ndarray) -> float:
    """The mean of −ln p over the tokens of the translations."""
    loss, total, count = TokenLoss(), 0.0, 0
    with torch.no_grad(), cpu_threads(trained.threads):
        for batch in LengthLoader(pairs.lengths(rows), lambda places: pairs.batch(rows[places]), 4096):
            sums = loss(trained.model(batch), batch.targets)
            total, count = total + float(sums[0]), count + int(sums[1])
    return total / max(count, 1)


def bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """sacreBLEU's corpus score of translations, cased, by its tokenizer 13a (Post 2018)."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    score = sacrebleu.corpus_bleu(list(written), [list(right)]).score
    if not math.isfinite(score):
        raise DataError("the translations cannot be scored: there is no text.")
    return round(score, 2)
