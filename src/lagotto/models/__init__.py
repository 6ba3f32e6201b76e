"""Running models, local or remote: ONNX sessions, JSON over HTTP, a disk cache of outputs."""
