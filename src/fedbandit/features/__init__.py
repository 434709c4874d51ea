"""Named features of contexts and actions, made into arms: one rule for Python and the sidecar."""

from fedbandit.features.encoder import Encoded, Encoder
from fedbandit.features.spec import Features, features_from

__all__ = ["Encoded", "Encoder", "Features", "features_from"]
