"""The command line: one file a verb. Nothing here imports torch, Lightning, RDKit or pandas before a verb runs."""
