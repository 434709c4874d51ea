"""The coordinator: merges what agents upload, exactly once and durably, and answers over HTTP.

Needs the extra ``service``. ``http`` answers requests, ``coordinator`` admits them, ``merging``
turns syncs into answers (``merging.sync`` has the story), ``models`` makes models and tells new
uploads from copies, ``storage`` keeps both, ``serve`` runs it all.
"""
