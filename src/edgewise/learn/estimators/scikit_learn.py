"""What estimators take from scikit-learn; stand-ins where it is missing, so that saved models predict without it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import Tags
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
        from sklearn.exceptions import NotFittedError
    except ModuleNotFoundError:
        BaseEstimator = object

        class ClassifierMixin:
            """Stands for scikit-learn's mixin."""

        class RegressorMixin:
            """Stands for scikit-learn's mixin."""

        NotFittedError = ValueError

__all__ = ["BaseEstimator", "ClassifierMixin", "NotFittedError", "RegressorMixin", "tags_of"]


def tags_of(tags: "Tags", *, is_table: bool = False, reads_arrays: bool = False) -> "Tags":
    """The tags of an estimator, by which scikit-learn knows what it reads.

    Args:
        tags: Those of scikit-learn's base.
        is_table: Whether y may have several columns.
        reads_arrays: Whether X is an array of numbers, sparse or with gaps, too.
    """
    tags.input_tags.two_d_array = reads_arrays
    if reads_arrays:
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
    if is_table:
        tags.target_tags.multi_output = True
    return tags
