"""The sidecar: an agent behind a JSON API, for programs in any language on the same machine."""
