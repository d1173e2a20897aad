"""Reviews small enough to train on in a moment, whose class and number one word decides."""

import random

FILLING = ["the", "a", "film", "plot", "actor", "scene", "very", "quite"]


def reviews(count: int, seed: int = 0) -> tuple[list[str], list[str], list[float]]:
    """Texts, their classes, and numbers of stars."""
    draw = random.Random(seed)
    texts, labels, stars = [], [], []
    for _ in range(count):
        is_good = draw.random() < 0.5
        words = [draw.choice(FILLING) for _ in range(draw.randint(1, 6))]
        words.insert(draw.randrange(len(words) + 1), "great" if is_good else "awful")
        texts.append(" ".join(words))
        labels.append("good" if is_good else "bad")
        stars.append((4.0 if is_good else 1.0) + draw.random())
    return texts, labels, stars
