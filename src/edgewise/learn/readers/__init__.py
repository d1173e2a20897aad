"""From tables and files to molecules, graphs, texts, series and motion."""
