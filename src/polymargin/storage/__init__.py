"""Files: model files without pickle, safe unpacking, writing in one piece."""
