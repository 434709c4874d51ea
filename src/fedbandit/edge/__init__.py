"""A sidecar: programs in any language rank and reward over JSON on the same machine."""
