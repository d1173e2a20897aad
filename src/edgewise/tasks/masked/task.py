"""Masked: hidden tokens of texts, to start other models from."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from edgewise.data.columns import Columns
from edgewise.data.texts.pairs import read_corpus
from edgewise.data.texts.table import LINES, read_texts
from edgewise.data.texts.tokenizer import MASK, Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural
from edgewise.tasks.commands import command, free_name
from edgewise.tasks.masked.job import MODEL, RECIPE, MaskedJob
from edgewise.tasks.masked.trained import TOKENS_A_BATCH, MaskedScores, TrainedMasked, scores_of_frequency
from edgewise.tasks.report.leakage import SplitContents, text_contents
from edgewise.tasks.scores import first_rejected, same
from edgewise.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.train.folder import RunFolder
from edgewise.train.loader import Loader
from edgewise.train.loss import TokenLoss
from edgewise.train.masks import Chunks, Masking, MaskLoader
from edgewise.train.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.train.training import FitResult


class MaskedTask(Task):
    """Hidden tokens of texts."""

    name = "masked"
    job_type = MaskedJob
    usual = MODEL, RECIPE
    format = TrainedMasked.FORMAT
    noun = "hidden tokens"
    headlines = same("loss", "perplexity", "accuracy")
    labels: ClassVar = {"frequency": "most frequent"}
    reads = ("text_columns",)

    def prepare(self, settings: MaskedJob) -> Prepared:
        texts = read_corpus(settings.data, settings.text_columns)
        rows = texts.split(settings.split_sizes, settings.data_seed)
        words = {split: texts.of_rows(found) for split, found in rows.items()}
        tokenizer = Tokenizer.learned(words["train"], settings.tokens, settings.vocabulary_size, special=(MASK,))
        splits = {
            split: Chunks.of([tokenizer.encode(text).numbers for text in found], settings.model.context)
            for split, found in words.items()
        }
        if not len(masking_of(tokenizer, settings).able(splits["train"].numbers)):
            many = plural(len(words["train"]), "training text has", "training texts have")
            raise DataError(
                f"{', '.join(settings.data)}: the {many} no token that could be hidden; give more texts, or a larger "
                "--vocabulary-size."
            )
        fitted = TrainedMasked(
            tokenizer=tokenizer, tokens=tokenizer.kind, num_tokens=len(tokenizer), settings=settings.model
        )
        listed = {split: found.tolist() for split, found in rows.items()}
        return Prepared(settings, texts, splits, fitted, listed, texts.rejected)

    def validation(self, prepared: Prepared) -> MaskLoader | None:
        """The validation texts, always the same tokens hidden; None where none can be."""
        masking = masking_of(prepared.fitted.tokenizer, prepared.settings)
        pieces = prepared.splits["val"]
        return MaskLoader(pieces, masking, TOKENS_A_BATCH) if len(masking.able(pieces.numbers)) else None

    def loaders(self, prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
        masking, validation = masking_of(prepared.fitted.tokenizer, prepared.settings), self.validation(prepared)

        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
            assert recipe.batch_size is not None
            return MaskLoader(prepared.splits["train"], masking, recipe.batch_size, recipe.seed), validation

        return of_member

    def loss(self, prepared: Prepared) -> TokenLoss:
        return TokenLoss()

    def evaluate(self, prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
        """The scores on hidden tokens of the validation texts, beside those of the most frequent token."""
        fitted, splits, validation = prepared.fitted, prepared.splits, self.validation(prepared)
        num_tokens = len(fitted.tokenizer)
        counts = {split: len(pieces.numbers) for split, pieces in splits.items()}
        metrics: dict[str, Any] = {
            "texts": {split: pieces.num_texts for split, pieces in splits.items()},
            "pieces": {split: len(pieces) for split, pieces in splits.items()},
            "tokens": {"vocabulary": num_tokens, **counts},
            **training_metrics(prepared, results[0]),
            "rejected": len(prepared.rejected),
        }
        if validation is not None:
            masking = masking_of(fitted.tokenizer, prepared.settings)
            metrics["tokens"]["hidden"] = sum(len(batch.places) for batch in validation)
            metrics["validation"] = MaskedScores(*fitted.token_scores(validation)).to_dict()
            known = scores_of_frequency(splits["train"], masking, validation, num_tokens)
            metrics["baselines"] = {"frequency": {"validation": known.to_dict()}}
        return metrics

    def split_contents(self, prepared: Prepared) -> SplitContents:
        """The rows of each split, their texts the same and nearly so."""
        held: dict[int, list[str]] = {}
        for row, text in zip(prepared.data.row_of_text.tolist(), prepared.data.texts, strict=True):
            held.setdefault(row, []).append(text)
        assert prepared.rows is not None
        contents = {split: ["\n".join(held[row]) for row in some] for split, some in prepared.rows.items()}
        return text_contents("texts", prepared.rows, contents)

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        texts, train, val = prepared.data, prepared.splits["train"], prepared.splits["val"]
        rejected = f", {plural(len(texts.rejected), 'empty cell')} rejected" if texts.rejected else ""
        lines = [
            f"{', '.join(texts.files)}: {plural(len(texts.texts), 'text')}{rejected}; a vocabulary of "
            f"{len(prepared.fitted.tokenizer):,}"
        ]
        lines += first_rejected(texts.rejected, folder)
        lines.append(
            f"{train.num_texts:,} training and {plural(val.num_texts, 'validation text')}; {len(train.numbers):,} and "
            f"{plural(len(val.numbers), 'token')}"
        )
        if cut := train.num_cut + val.num_cut:
            longer = plural(cut, "text is", "texts are")
            lines.append(
                f"  {longer} longer than --context {prepared.settings.model.context} and read in pieces of that length"
            )
        if not val.num_texts:
            lines.append("  no validation texts: the model is not evaluated")
        return lines

    def title(self, metrics: dict[str, Any], split: str) -> str:
        return f"validation texts: {plural(metrics['tokens']['hidden'], 'hidden token')}"

    def next_commands(self, folder: RunFolder) -> list[str]:
        data = folder.read_config()["data"][-1]
        return [command("fingerprint", folder.path, data, "-o", free_name("vectors.npz"))]

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained model, and the table, or the lines, with the columns it has read."""
        folder = request.run_folder
        trained, names = TrainedMasked.load(folder), request.text_columns
        if not names and (folder.path / "config.toml").is_file():
            names = folder.read_config().get("text-columns")
        if request.data.lower().endswith(LINES):
            names = ["text"]
        elif not names:
            raise SettingError(f"{request.data} is a table; name the columns that hold texts: --text-columns text.")
        columns = Columns(text_columns=tuple(names))
        return trained, read_texts([request.data], columns, strict=request.strict, need_targets=False)


def masking_of(tokenizer: Tokenizer, settings: MaskedJob) -> Masking:
    """What a run hides."""
    assert tokenizer.mask is not None
    return Masking(tokenizer.mask, tokenizer.ordinary, settings.mask_fraction)


TASK = MaskedTask()
