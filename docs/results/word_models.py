"""Linear models over words, stems and pairs of words alone, on the held-out rows of word_counts.py.

    EDGEWISE_DATA=… python docs/results/word_models.py

Each learns from all rows that are not held out. Of classes the accuracy in percent is printed, of the same labels as
numbers R² in percent. Beside the companion stand logistic regression over its ratios (Wang & Manning 2012), and over
tf-idf, and ridge regression over tf-idf, all over the same three kinds of features.
"""

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from word_counts import sets

from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.companions.word_counts import NUM_KINDS, FeatureCounts, WordCounts
from edgewise.learn.tasks.vocabulary import tokenizer_and_weights
from edgewise.learn.training.loss import TargetLoss

CLASSES, NUMBERS = TargetLoss("classification", "mse", num_classes=(2,)), TargetLoss("regression", "mse")


def packed(texts: list[np.ndarray]) -> TextRowBatch:
    """A batch of texts."""
    return TextRowBatch.pack(texts, [np.zeros(len(text), dtype=np.int64) for text in texts])


def occurrences(model: WordCounts, texts: list[np.ndarray]) -> csr_array:
    """(row, feature): 1 where a text has a feature."""
    batch = packed(texts)
    columns = model.feature_ids(batch.tokens, batch.offsets[:-1]).flatten().numpy()
    shape = len(texts), len(model.weights)
    table = csr_array((np.ones(len(columns)), columns, NUM_KINDS * batch.offsets.numpy()), shape=shape)
    table.sum_duplicates()
    table.data[:] = 1
    return table


def scores(frame: pd.DataFrame) -> dict[str, float]:
    """Of each model, on the held-out rows of a table."""
    is_test, labels = (frame["split"] == "test").to_numpy(), (frame["label"] == "1").to_numpy().astype(np.float32)
    tokenizer, _ = tokenizer_and_weights(None, iter(frame["text"][~is_test]), "words", 32768, False)
    tokens = [tokenizer.row_of((text,), 512).numbers.astype(np.int64) for text in frame["text"]]
    names = [tokenizer.inner.id_to_token(number) or "" for number in range(len(tokenizer))]
    train, test = ([tokens[row] for row in np.flatnonzero(chosen)] for chosen in (~is_test, is_test))
    known, truth = labels[~is_test], labels[is_test]
    mean, std = known.mean(), known.std()

    def accuracy(values: np.ndarray) -> float:
        return 100 * float(np.mean((values > 0) == (truth > 0)))

    def explained(values: np.ndarray) -> float:
        return 100 * (1 - float(np.mean((values - (truth - mean) / std) ** 2)))

    targets, weights = torch.from_numpy(known)[:, None], torch.ones(len(known))
    of_classes = WordCounts.fit(names, train, targets, weights, CLASSES)
    of_numbers = WordCounts.fit(names, train, (targets - float(mean)) / float(std), weights, NUMBERS)
    found = {"companion, classes": accuracy(of_classes(packed(test))[:, 0].numpy())}
    rows, new_rows = occurrences(of_classes, train), occurrences(of_classes, test)
    ratios = FeatureCounts.of(of_classes, train, targets, CLASSES).ratios()[:, 0].numpy()
    scaled, new_scaled = rows.multiply(ratios).tocsr(), new_rows.multiply(ratios).tocsr()
    for penalty in (0.1, 0.3, 1.0):
        model = LogisticRegression(C=penalty, max_iter=500).fit(scaled, known)
        found[f"its ratios, logistic, C {penalty}"] = accuracy(model.decision_function(new_scaled))
    tf_idf = TfidfTransformer(sublinear_tf=True).fit(rows)
    rows, new_rows = tf_idf.transform(rows), tf_idf.transform(new_rows)
    for penalty in (1.0, 3.0, 10.0):
        model = LogisticRegression(C=penalty, max_iter=500).fit(rows, known)
        found[f"tf-idf, logistic, C {penalty}"] = accuracy(model.decision_function(new_rows))
    found["companion, numbers"] = explained(of_numbers(packed(test))[:, 0].numpy())
    for penalty in (0.3, 0.5, 1.0, 2.0):
        found[f"tf-idf, ridge, {penalty}"] = explained(Ridge(penalty).fit(rows, (known - mean) / std).predict(new_rows))
    return found


if __name__ == "__main__":
    table = pd.DataFrame({name: scores(frame) for name, frame in sets().items()})
    print(table.assign(mean=table.mean(axis=1)).round(2).to_string())
