"""Scores of predicted tags: spans by the rules of conlleval and seqeval, or plain tags."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

Span = tuple[str, int, int]
"""The type of a span, its first word, and one past its last word."""
Tags = Sequence[str]
_OF_SPAN = re.compile(r"[BIES]-.")


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark where spans begin and go on, as B-, I-, E- and S- do; parts of speech do not."""
    return any(_OF_SPAN.match(tag) for tag in tags)


def spans_of(tags: Tags) -> set[Span]:
    """The spans that the tags of one sentence mark, in any of the schemes IOB1, IOB2 and IOBES.

    A span begins at B and S; at I and E where none goes on (after O, E and S); and wherever the type changes. It ends
    before the next one and before O, and after E and S. So I after O begins a span, and so does I-X after B-Y.

    Args:
        tags: "O", or a sign and a type, such as "B-PER".

    Source: conlleval of the CoNLL shared tasks; seqeval (Nakayama 2018) in its default mode.
    """
    spans: set[Span] = set()
    begin, before, before_type = 0, "O", ""
    for index, tag in enumerate([*tags, "O"]):
        sign, of_type = tag[:1], tag[1:].split("-", 1)[-1] or "_"
        changes = of_type != before_type
        if before != "O" and (before in "ES" or sign in "BSO" or changes):
            spans.add((before_type, begin, index))
        if sign != "O" and (sign in "BS" or before in "OES" or changes):
            begin = index
        before, before_type = sign, of_type

    return spans


def tag_scores(truths: Sequence[Tags], predictions: Sequence[Tags], *, spans: bool) -> dict[str, object]:
    """The scores of the tags of some sentences.

    Args:
        truths: the right tags of each sentence.
        found: the predicted ones.
        spans: whether tags mark spans, see `marks_spans`.

    Returns:
        num_sentences, num_words and accuracy (the part of the words whose tag is right). Of spans also precision,
        recall and f1 over all of them, num_spans, and under `types` the same of each type, `support` being how many
        there are. Otherwise f1_macro, the mean over the tags that occur. 0 where nothing could be right, None without
        words.
    """
    pairs = [pair for truth, tags in zip(truths, predictions, strict=True) for pair in zip(truth, tags, strict=True)]
    scores: dict[str, object] = {
        "num_sentences": len(truths),
        "num_words": len(pairs),
        "accuracy": sum(truth == tag for truth, tag in pairs) / len(pairs) if pairs else None,
    }
    if not spans:
        true_counts, predicted_counts = Counter(truth for truth, _ in pairs), Counter(tag for _, tag in pairs)
        correct_counts = Counter(truth for truth, tag in pairs if truth == tag)
        f1_of_tags = [
            _shares(correct_counts[tag], predicted_counts[tag], true_counts[tag])["f1"]
            for tag in true_counts | predicted_counts
        ]
        return scores | {"f1_macro": sum(f1_of_tags) / len(f1_of_tags) if f1_of_tags else None}

    true_counts, predicted_counts, correct_counts = Counter(), Counter(), Counter()
    for truth, tags in zip(truths, predictions, strict=True):
        true_spans, predicted_spans = spans_of(truth), spans_of(tags)
        true_counts.update(of_type for of_type, *_ in true_spans)
        predicted_counts.update(of_type for of_type, *_ in predicted_spans)
        correct_counts.update(of_type for of_type, *_ in true_spans & predicted_spans)

    types = {
        of_type: {
            **_shares(correct_counts[of_type], predicted_counts[of_type], true_counts[of_type]),
            "support": true_counts[of_type],
        }
        for of_type in sorted(true_counts | predicted_counts)
    }
    return (
        scores
        | _shares(correct_counts.total(), predicted_counts.total(), true_counts.total())
        | {"num_spans": true_counts.total(), "types": types}
    )


def _shares(right: int, predicted: int, there: int) -> dict[str, float]:
    """Precision, recall and their harmonic mean; 0 where there is nothing to divide by, as in seqeval."""
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / there if there else 0.0,
        "f1": 2 * right / (predicted + there) if predicted + there else 0.0,
    }


class UsualTags:
    """A baseline: each word has the tag it had most often in the training, an unknown one the most frequent tag.

    Args:
        sentences: the words of the training.
        tags: their tags.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], tags: Sequence[Tags]):
        counts: dict[str, Counter[str]] = {}
        total: Counter[str] = Counter()
        for words, marks in zip(sentences, tags, strict=True):
            total.update(marks)
            for word, tag in zip(words, marks, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
        self.of_word = {word: _most(count) for word, count in counts.items()}
        self.usual = _most(total)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of every word."""
        return [[self.of_word.get(word, self.usual) for word in words] for words in sentences]


def _most(counts: Counter[str]) -> str:
    """The most frequent tag; the first in the alphabet where several are."""
    return min(counts, key=lambda tag: (-counts[tag], tag))
