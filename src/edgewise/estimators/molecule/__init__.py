"""Tables of molecules to their properties: the settings, the run, the face in Python."""
