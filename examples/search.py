"""Attention as search: a typed query is compared with every title; hard attention opens one text, soft blends them.

    python examples/search.py "why do boats float"

Keys are the titles, values are the contents. Both are turned into vectors by counting the letter triples in them, so
that "floating" and "float" are near each other.
"""

import sys
import zlib

import torch

from edgewise import Cosine, Hardmax, Softmax, attend, attention_weights

LIBRARY = {
    "Why ships float": "A ship pushes water aside; when that water weighs as much as the ship, the ship floats.",
    "How bread rises": "Yeast eats sugar and breathes out gas; the dough holds the bubbles and rises.",
    "Why the sky is blue": "Air scatters blue light more than red, so blue reaches us from every side.",
    "What salt does to ice": "Salt dissolves in the film of water on ice and lowers the point at which it freezes.",
    "How bees find flowers": "A bee that found flowers dances; the angle of the dance points the way to them.",
    "How soap cleans": "One end of a soap molecule holds on to grease, the other to water; rinsing takes both away.",
}
SIZE = 4096


def letters(text: str) -> torch.Tensor:
    """A text as counts of its letter triples, hashed into SIZE places."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()
    triples = [f" {word} "[i : i + 3] for word in words for i in range(len(word))]
    vector = torch.zeros(SIZE)
    for triple in triples:
        vector[zlib.crc32(triple.encode()) % SIZE] += 1
    return vector


def search(query: str) -> tuple[str, list[tuple[float, str]]]:
    """The text under the best title, and every title with its weight."""
    titles, texts = list(LIBRARY), list(LIBRARY.values())
    keys = torch.stack([letters(title) for title in titles])
    values = torch.eye(len(texts))  # a value says which text it is, so that the output says how much of each
    asked = letters(query)
    hard = attend(asked, keys, values, score=Cosine(), normalize=Hardmax())
    soft = attention_weights(asked, keys, score=Cosine(), normalize=Softmax(temperature=0.1))
    ranking = sorted(zip(soft.values.tolist(), titles), reverse=True)
    return texts[int(hard.argmax())], ranking


def main() -> None:
    """Search for the words on the command line."""
    query = " ".join(sys.argv[1:]) or "why do boats float"
    answer, ranking = search(query)
    print(f"query  {query}\nhard   {answer}\nsoft")
    for weight, title in ranking:
        print(f"  {weight:6.3f}  {'█' * round(40 * weight):<40} {title}")


if __name__ == "__main__":
    main()
