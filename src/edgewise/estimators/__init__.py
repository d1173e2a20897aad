"""From a table of molecules to a trained model in one call: data, model and training composed."""
