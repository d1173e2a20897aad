"""Graphs: nodes, edges, types, links, series, and their disjoint union."""
