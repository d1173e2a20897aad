"""A convolution is attention whose weights do not look: over words (a window) and over an image (a grid is a graph).

    o_i = Σ_{j∈N(i)} v^e_ij        v^e_ij = W_{position of j relative to i} x_j

Each neighbor goes through the matrix that belongs to where it stands, and the neighborhood is summed: that is all that
`conv1d` and `conv2d` do, and the numbers are theirs.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import Edges, Window, aggregate


def convolve(nodes: Tensor, edges: Edges, place: Tensor, weight: Tensor) -> Tensor:
    """Σ over the neighbors j of i of W_{place of the edge} x_j.

    Args:
        nodes: (node, feature).
        edges: who is near whom.
        place: (edge), which of the matrices serves the edge.
        weight: (place, out_feature, feature).
    """
    carried = torch.einsum("eof,ef->eo", weight[place], nodes[edges.senders])
    nothing = nodes.new_zeros(nodes.shape[0], weight.shape[1])
    return aggregate(nothing, edges, "sum", edge_value=carried)


def over_words(words: Tensor, kernel: Tensor) -> Tensor:
    """`F.conv1d` with padding, as a sum over a window of words.

    Args:
        words: (word, feature).
        kernel: (out_feature, feature, width), as torch keeps it.
    """
    reach = kernel.shape[2] // 2
    edges = Window(reach, reach).to_edges(words.shape[0])
    return convolve(words, edges, edges.senders - edges.receivers + reach, kernel.permute(2, 0, 1))


def grid(height: int, width: int, reach: int) -> tuple[Edges, Tensor]:
    """The graph of an image, pixels near those at most `reach` rows and columns away; each edge's place in a kernel."""
    rows, columns = (
        axis.flatten() for axis in torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    )
    senders, receivers, places = [], [], []
    for number, (down, right) in enumerate(itertools.product(range(-reach, reach + 1), repeat=2)):
        there = (rows + down >= 0) & (rows + down < height) & (columns + right >= 0) & (columns + right < width)
        pixel = (rows * width + columns)[there]
        receivers.append(pixel)
        senders.append(pixel + down * width + right)
        places.append(torch.full_like(pixel, number))
    return Edges(torch.cat(senders), torch.cat(receivers), height * width, height * width), torch.cat(places)


def over_pixels(image: Tensor, kernel: Tensor) -> Tensor:
    """`F.conv2d` with padding, as a sum over the neighbors in a grid.

    Args:
        image: (feature, height, width).
        kernel: (out_feature, feature, size, size), as torch keeps it.
    """
    edges, place = grid(image.shape[1], image.shape[2], kernel.shape[2] // 2)
    out = convolve(image.flatten(1).T, edges, place, kernel.flatten(2).permute(2, 0, 1))
    return out.T.unflatten(1, image.shape[1:])


def main() -> None:
    """Both, beside torch's own."""
    torch.manual_seed(0)
    words, kernel = torch.randn(12, 4), torch.randn(5, 4, 3)
    off = over_words(words, kernel).T - F.conv1d(words.T, kernel, padding=1)
    print(f"words: largest difference to conv1d {off.abs().max():.0e}")
    image, kernel = torch.randn(3, 9, 7), torch.randn(2, 3, 5, 5)
    off = over_pixels(image, kernel) - F.conv2d(image, kernel, padding=2)
    print(f"pixels: largest difference to conv2d {off.abs().max():.0e}")


if __name__ == "__main__":
    main()
