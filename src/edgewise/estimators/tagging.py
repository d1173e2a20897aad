"""Tagger: a tag for each word, from Python."""

from collections.abc import Sequence
from typing import Self

from edgewise.data.texts.tags import sentences_from_lists
from edgewise.errors import SettingError
from edgewise.estimators.learner import Learner
from edgewise.explanation import Explanation
from edgewise.tasks.run import fit
from edgewise.tasks.tagging.explain import explain_sentence
from edgewise.tasks.tagging.job import tagging_job
from edgewise.tasks.tagging.task import TASK
from edgewise.tasks.tagging.trained import TrainedTagger
from edgewise.train.device import pick_device
from edgewise.train.spans import tag_scores


class Tagger(Learner[TrainedTagger]):
    """Tells the tag of each word, such as its part of speech, or whether a name begins at it.

        Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])

    Args:
        settings: any field of TaggingJob, ReaderSettings, TransformerSettings or TrainSettings by its name; `model`,
            the name of a recurrent network or of one of `CONFIGURATIONS`; and validation_size, the part of the
            sentences that is scored instead of learned (default: 0.1).
    """

    kind = TrainedTagger
    fitted_by = "fit(sentences, tags)"
    own_settings = ()

    def fit(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Self:
        """Learns the tags of some sentences.

        Args:
            sentences: the words of each.
            tags: the tag of each word.

        Raises:
            DataError: a sentence has not as many tags as words; the message names it.
            SettingError: a setting is not known, or has a value it cannot have.
        """
        settings = dict(self.settings)
        size = settings.pop("validation_size", 0.1)
        if not 0 <= size < 1:
            raise SettingError(f"validation_size is {size}; expected at least 0 and below 1.")
        read = sentences_from_lists(sentences, tags)
        job = tagging_job({**settings, "data": read.files, "split_sizes": (1 - size, size, 0.0)}, "Tagger")
        prepared = TASK.prepared(job, read)
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
        return self

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of every word of some sentences."""
        read = sentences_from_lists(sentences)
        return self.trained.tag(read.words, pick_device(self.settings.get("device", "auto")))

    def explain(
        self,
        sentence: str | Sequence[str],
        *,
        target: str | int | None = None,
        label: str | None = None,
        top: int | None = None,
    ) -> Explanation:
        """The tags of one sentence, and for one word what its tag depends on; see `explain_sentence`.

        Args:
            sentence: its words, or a text in which they stand between spaces.
            target: the word that is explained: its place counted from 1, or itself where it stands once; by default
                the first with a tag other than that of most words.
            label: the tag whose probability is explained; the told one by default.
            top: how many of the strongest weights of each token are kept.
        """
        return explain_sentence(self.trained, sentence, target=target, label=label, top=top)

    def score(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> float:
        """The F1 of the spans; where tags mark none, the part of the words whose tag is right."""
        trained, read = self.trained, sentences_from_lists(sentences, tags)
        scores = tag_scores(read.tags, self.predict(read.words), spans=trained.spans)
        return scores["f1" if trained.spans else "accuracy"]
