"""Models as formulas in other languages: SQL and ONNX."""
